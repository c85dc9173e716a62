"""What people reach for: functions with names from elsewhere, options of losses, padding."""

import math

import pytest

import extensor as ex
from extensor import nn


def test_a_weight_after_one_that_is_left_out_is_taken_for_what_it_is():
    x, t, p = ex.asarray([0.0, 0.0]), ex.asarray([1.0, 0.0]), ex.asarray([3.0])
    loss = ex.binary_cross_entropy_with_logits(x, t, pos_weight=p, reduction="none")
    assert loss.tolist() == pytest.approx([3 * math.log(2), math.log(2)])
    g = ex.binary_cross_entropy_with_logits_backward(ex.ones(2), x, t, pos_weight=p, reduction="none")
    assert g[0].tolist() == pytest.approx([-1.5, 0.5])


def test_classes_have_weights_and_some_do_not_count():
    x, k = ex.asarray([[0.0, 0.0], [0.0, 0.0]]), ex.asarray([0, -100])
    weight = ex.asarray([2.0, 1.0])
    loss = ex.cross_entropy(x, k, weight=weight, ignore_index=-100)
    assert loss.item() == pytest.approx(math.log(2))
    logs = ex.log_softmax(x, 1)
    assert ex.nll_loss(logs, k, weight, ignore_index=-100).item() == pytest.approx(math.log(2))
    with pytest.raises(IndexError, match="class index -100"):
        ex.cross_entropy(x, k)


def test_tensors_are_stacked_turned_and_integrated():
    a, b = ex.asarray([1, 2]), ex.asarray([3, 4])
    assert ex.vstack([a, b]).tolist() == [[1, 2], [3, 4]] and ex.hstack([a, b]).tolist() == [1, 2, 3, 4]
    assert ex.dstack([a, b]).tolist() == [[[1, 3], [2, 4]]] and ex.column_stack([a, b]).tolist() == [[1, 3], [2, 4]]
    x = ex.asarray([[1, 2, 3], [4, 5, 6]])
    assert ex.rot90(x).tolist() == [[3, 6], [2, 5], [1, 4]]
    assert ex.rot90(x, 2).tolist() == [[6, 5, 4], [3, 2, 1]]
    assert ex.rot90(x, -1).tolist() == ex.rot90(x, 3).tolist() == [[4, 1], [5, 2], [6, 3]]
    y = ex.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]])
    assert ex.trapezoid(y, dx=2.0).tolist() == [9.0, 2.0]
    assert ex.trapezoid(y, x=ex.asarray([0.0, 5.0]), axis=0).tolist() == [2.5, 7.5, 10.0]


def test_what_pads_a_sequence_is_zeros_and_has_no_gradient():
    table = nn.Embedding(ex.Key(1), 4, 3, padding_idx=-1)
    index = ex.asarray([3, 0, 0])
    assert table(index).tolist()[0] == [0.0, 0.0, 0.0]
    g = ex.grad(lambda t: ex.sum(t(index)))(table).weight
    assert g.tolist() == [[2.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3]


def test_softplus_has_a_beta_and_activations_have_parameters():
    x = ex.asarray([-1.0, 0.0, 2.0])
    assert ex.softplus(x, beta=2.0).tolist()[1] == pytest.approx(math.log(2) / 2)
    assert ex.hardshrink(x).tolist() == [-1.0, 0.0, 2.0] and ex.softshrink(x, lambd=0.5).tolist() == [-0.5, 0.0, 1.5]
    assert ex.threshold(x, threshold=0.5, value=7.0).tolist() == [7.0, 7.0, 2.0]
    assert ex.lerp(x, 1.0, 0.5).tolist() == [0.0, 0.5, 1.5]
    assert ex.addcmul(x, x, x, value=2.0).tolist() == [1.0, 0.0, 10.0]
