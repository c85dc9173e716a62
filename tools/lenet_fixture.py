"""A LeNet-5 as PyTorch saves it, and what it says about a few pictures: for the tests of nn.

    python tools/lenet_fixture.py crates/extensor/tests/fixtures
"""

import sys
from collections import OrderedDict

import torch
from safetensors.torch import save_file
from torch import nn

torch.manual_seed(5)


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = nn.functional.max_pool2d(torch.relu(conv(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


model, pictures = LeNet5(), torch.randn(3, 1, 28, 28)
with torch.no_grad():
    logits = model(pictures)
folder = sys.argv[1]
save_file(model.state_dict(), f"{folder}/lenet5.safetensors", metadata={"format": "pt"})
save_file(OrderedDict(pictures=pictures, logits=logits), f"{folder}/lenet5-case.safetensors")
