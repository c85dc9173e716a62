"""ExTensor beside PyTorch: what is compared, how arguments are drawn, and who judges.

A file for each area holds entries (`products.py`, `losses.py`, …); `entry.py` says what an entry is and finds our
functions by name; `draw.py` draws arguments; `judge.py` compares; `mapped.py` is `vmap` over all entries;
`conventions.py` is the list of what is not compared, and why.
"""
