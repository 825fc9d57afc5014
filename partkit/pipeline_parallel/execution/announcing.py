"""Announcing: before the first micro-batch of its kind, each stage tells the next what it will hand over.

    stage 0  runs the micro-batch once on numbers of the right shape -> form of what it hands over -> stage 1
    stage 1  ... -> stage 2
    stage p - 1 knows what to expect

Micro-batches that look alike (shapes, dtypes, values that are no tensors) share one announcement, so a training loop pays for it at its
first step, and again when shapes change. Nothing of the run is left: no gradients, buffers and random numbers as before.

Cost of one: a forward of every stage but the last, one after the other, and two small messages for each pair of neighbours on different ranks.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree

from partkit.communicator import Communicator
from partkit.pipeline_parallel.execution.microbatches import Microbatch
from partkit.pipeline_parallel.execution.piece import Piece, RandomState
from partkit.pipeline_parallel.execution.values import Form, take_apart
from partkit.pipeline_parallel.schedule import Schedule


class Forms(NamedTuple):
    """Of one stage, for micro-batches that look alike."""

    incoming: Form
    outgoing: Form | None


class Announcements:
    """What the stages of this rank have heard and told so far.

    Args:
        comm: the ranks.
        schedule: for who has which stage.
        pieces: by stage, those of this rank.
    """

    def __init__(self, comm: Communicator, schedule: Schedule, pieces: Mapping[int, Piece]) -> None:
        self._comm, self._schedule, self._pieces = comm, schedule, pieces
        self._replicas = [schedule.replica_of(i) for i in range(schedule.num_microbatches)]
        self._known: list[tuple[tuple[tuple[str, ...], Form], int, dict[int, Forms]]] = []

    def of_step(self, microbatches: Sequence[Microbatch]) -> list[dict[int, Forms]]:
        """For each micro-batch, what comes to and goes from each stage of this rank that works on it. All ranks ask at the same time.

        The micro-batches are those of one batch: they look alike if they have as many rows.
        """
        found: dict[tuple[int, int], dict[int, Forms]] = {}
        keys = [(replica, microbatch.rows) for replica, microbatch in zip(self._replicas, microbatches, strict=True)]
        for key, microbatch in zip(keys, microbatches, strict=True):
            if key not in found:
                found[key] = self._forms(microbatch, key[0])
        return [found[key] for key in keys]

    def _forms(self, microbatch: Microbatch, replica: int) -> dict[int, Forms]:
        look = tuple(microbatch.kwargs), take_apart((*microbatch.args, *microbatch.kwargs.values()))[0].without_gradients
        for known, of_replica, forms in self._known:
            if of_replica == replica and known == look:
                return forms
        with self._comm.span("announce"):
            forms = self._announce(microbatch, replica)
        self._known.append((look, replica, forms))
        return forms

    def forget(self) -> None:
        """Begin anew, after an error or when modules have changed."""
        self._known.clear()

    def _announce(self, microbatch: Microbatch, replica: int) -> dict[int, Forms]:
        place, p = self._schedule.placement, self._schedule.num_stages
        forms: dict[int, Forms] = {}
        heard = take_apart(microbatch.args)[0].without_gradients
        for stage in range(replica * p, (replica + 1) * p):
            last = stage % p == p - 1
            if place[stage] != self._comm.rank:
                continue
            if stage % p and place[stage - 1] != place[stage]:
                heard = self._hear(place[stage - 1], stage)
            outgoing = None if last else self._rehearse(stage, heard, microbatch)
            forms[stage] = Forms(heard, outgoing)
            if outgoing is not None and place[stage + 1] != place[stage]:
                self._tell(outgoing, place[stage + 1], stage + 1)
            heard = heard if outgoing is None else outgoing
        return forms

    def _rehearse(self, stage: int, incoming: Form, microbatch: Microbatch) -> Form:
        piece, first = self._pieces[stage], stage % self._schedule.num_stages == 0
        device = next((torch.device(tensor.device) for tensor in incoming.tensors), None)
        with RandomState(device).again(), torch.enable_grad():
            given = microbatch.args if first else incoming.zeros(), microbatch.kwargs
            args, kwargs = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, given)  # a piece may work in place
            try:
                returned = piece.without_traces(args, kwargs)
            except Exception as error:
                error.add_note(f"while stage {stage} ran on {'a micro-batch' if first else 'zeros'} to see what it hands over, before the first step")
                raise
        return take_apart(piece.hands_over(returned))[0]

    def _tell(self, form: Form, dst: int, stage: int) -> None:
        text = torch.frombuffer(bytearray(pickle.dumps(form)), dtype=torch.uint8)
        self._comm.send(torch.tensor([text.numel()]), dst, tag=f"length of the form for stage {stage}")
        self._comm.send(text, dst, tag=f"form for stage {stage}")

    def _hear(self, src: int, stage: int) -> Form:
        length = self._comm.recv(torch.empty(1, dtype=torch.int64), src, tag=f"length of the form for stage {stage}")
        text = self._comm.recv(torch.empty(int(length), dtype=torch.uint8), src, tag=f"form for stage {stage}")
        form: Form = pickle.loads(text.numpy().tobytes())
        return form
