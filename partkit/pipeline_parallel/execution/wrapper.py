"""`PipelineParallel`: train one model whose layers lie on different ranks, as if one process had it all.

    model = pk.PipelineParallel(net, comm, loss=F.cross_entropy, schedule="zb_h1", num_microbatches=8)
    step = model.step(x, target=y)          forward and backward of the whole batch; gradients are there
    optimizer.step()                        each rank's own, for its own layers

    cut           net -> pieces, one a stage                                 `cut`, `graph`, `balance`
    split         batch -> micro-batches                                     `microbatches`
    announce      what passes between stages                                 `announcing`, once for a shape
    execute       the schedule's list, action by action                      `execute`, `stage`, `halves`
    share         gradients of tied weights and replicas are summed          `sharing`

Messages of a step, besides announcements: one for each tensor that passes from one rank to another, forward and, where it has a gradient,
backward; and one all-reduce for each set of ranks that share parameters.

Source: Huang et al. 2019, "GPipe"; Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from partkit.communicator import Communicator
from partkit.pipeline_parallel.action import Action
from partkit.pipeline_parallel.execution.announcing import Announcements
from partkit.pipeline_parallel.execution.choosing import check_trains, forwards_of, schedule_for
from partkit.pipeline_parallel.execution.cut import Cut, cut_module
from partkit.pipeline_parallel.execution.execute import Executor
from partkit.pipeline_parallel.execution.microbatches import OUTPUT, TARGET, Loss, Microbatch, argument_names, join_outputs, output_dim, split_batch
from partkit.pipeline_parallel.execution.part import part_of
from partkit.pipeline_parallel.execution.recompute import Recompute, chosen
from partkit.pipeline_parallel.execution.sharing import Sharing, shared_parameters
from partkit.pipeline_parallel.execution.stage import Share, Stage
from partkit.pipeline_parallel.execution.versions import WeightVersions, check_steps, versions_of
from partkit.pipeline_parallel.memory import peak_microbatches
from partkit.pipeline_parallel.schedule import Schedule
from partkit.pipeline_parallel.schedules.stepping import gathered


class Step(NamedTuple):
    """What a step gives. On ranks without a last stage both are None."""

    loss: Tensor | None
    """The loss of the batch; where replicas share the batch, this rank's share of the sum."""
    losses: Tensor | None
    """(m,), the loss of each micro-batch, in the order of samples; where replicas share the batch, of this rank's micro-batches."""


class PipelineParallel(nn.Module):
    """A model cut in stages, which lie on the ranks and work on micro-batches as a schedule says.

    Every rank builds the same model and calls `step` with the same batch, of which it uses what its stages need. `step` adds to each
    ``.grad`` what ``loss.backward()`` would in one process. Batch norm normalises by micro-batch; everything else is as in one process.
    A parameter on which only unused outputs of a stage depend gets zeros, where one process would leave its ``.grad`` alone. Under
    asynchronous schedules (PipeDream) the optimizer steps inside, once it is given to `use_optimizer`; without it their STEPs do nothing,
    and gradients of the whole batch add up, as under any other schedule.

    Args:
        module: a module, or a list of modules, one for each stage (what one returns, the next gets). It is not changed, and this
            rank's stages go on using its submodules.
        comm: the ranks.
        loss: ``loss(output, target)``, a mean over the rows of a micro-batch; for other reductions a
            `partkit.pipeline_parallel.execution.Loss`. None: the module returns the loss.
        schedule: a `Schedule`, the name of one, or a function of ranks and micro-batches that makes one.
        num_microbatches: in how many a batch is split; with a `Schedule` it is known.
        cut: names of the submodules at which a new stage begins, or a `partkit.pipeline_parallel.execution.Balanced` that finds them; by
            default stages get about as many parameters each (`partkit.pipeline_parallel.execution.cut`).
        split: for arguments of the batch, and "target", the dim along which they are split; None: not at all. By default tensors are split
            along dim 0, keyword arguments too. Optional arguments that choose what a module does must be named here to be followed. For
            "output" the dim along which `forward` joins; None: it gives a list, by micro-batch.
        recompute: "full" keeps a stage's inputs only and runs its forward again in backward; "none" keeps all that backward needs; names
            of submodules, or a function of name and module that chooses some, do the first for those alone
            (`partkit.pipeline_parallel.execution.recompute`).

    Attributes:
        module: this rank's part of the model; names are those of the whole.
        schedule: with messages written out.
        stages: of this rank, by number.

    Raises:
        InvalidSchedule: the schedule can't run.
        ValueError: it is for another number of ranks, or the module can't be cut so.

    Example:
        >>> import torch, partkit as pk
        >>> def train(comm):
        ...     net = torch.nn.Sequential(*[torch.nn.Linear(1, 1, bias=False) for _ in range(2)])
        ...     for layer in net:
        ...         torch.nn.init.constant_(layer.weight, 2.0)
        ...     model = pk.PipelineParallel(net, comm, loss=torch.nn.functional.mse_loss, schedule="gpipe", num_microbatches=2)
        ...     x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        ...     step = model.step(x, target=torch.zeros(4, 1))
        ...     (parameter,) = model.parameters()
        ...     return parameter.grad.item(), step.losses
        >>> with pk.World(2) as world:
        ...     world.run(train)
        [(120.0, None), (120.0, tensor([ 40., 200.]))]
    """

    def __init__(
        self,
        module: nn.Module | Sequence[nn.Module],
        comm: Communicator,
        *,
        loss: Loss | Callable[..., Tensor] | None = None,
        schedule: str | Schedule | Callable[[int, int], Schedule] = "one_f_one_b",
        num_microbatches: int | None = None,
        cut: Cut | None = None,
        split: Mapping[str, int | None] | None = None,
        recompute: Recompute = "none",
    ) -> None:
        super().__init__()
        self.comm = comm
        self.schedule = schedule_for(schedule, comm.size, num_microbatches)
        self.loss = loss if isinstance(loss, Loss) else Loss(loss)
        self._split = dict(split or {})
        p, own = self.schedule.num_stages, self.schedule.stages_of(comm.rank)
        self._pieces = cut_module(module, p, cut, alive=peak_microbatches(self.schedule)[:p], given=self._split)
        again, full = chosen(self._pieces, recompute), recompute == "full"
        self.stages = {stage: Stage(stage, self._pieces.stages[stage % p], self.loss, full=full, again=again[stage % p]) for stage in own}
        self.module = part_of((self._pieces.prefixes[stage % p], self._pieces.stages[stage % p].module) for stage in dict.fromkeys(s % p for s in own))
        self._announcements = Announcements(comm, self.schedule, {stage: self._pieces.stages[stage % p] for stage in own})
        self._sharing = Sharing(shared_parameters(self._pieces.stages, self.schedule.placement), comm)
        with comm.span("share"):
            self._sharing.make_equal()
        self._gathered: tuple[Sequence[int], ...] = (range(self.schedule.num_microbatches),)
        self._training_step = Executor(self.schedule, comm, self.stages, self._step_inside)
        self._evaluation = Executor(forwards_of(self.schedule), comm, self.stages)

    def step(self, *args: Any, target: Any = None, **kwargs: Any) -> Step:
        """Forward and backward of a batch, as the schedule says. All ranks call it with the same batch.

        Args:
            args: of the module, for the whole batch.
            target: for the loss.
            kwargs: of the module; each stage takes those that it names.

        Returns:
            The loss, and that of each micro-batch, on ranks with a last stage.

        Raises:
            ValueError: the batch can't be split, no stage takes a keyword, one hands over what it did not announce, or there is no backward.
        """
        check_trains(self.schedule)
        microbatches = self._microbatches(args, kwargs, target)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                self._begin(microbatches, train=True)
                self._sharing.open()
                self._training_step.run()
        except BaseException:
            self._announcements.forget()
            raise
        with self.comm.span("share"):
            self._sharing.close()
        return self._losses(microbatches)

    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output for a batch, without gradients, on ranks with a last stage; None elsewhere. All ranks call it.

        Args:
            args: of the module, for the whole batch.
            kwargs: of the module; each stage takes those that it names.

        Returns:
            Tensors with all rows; of a tensor without dims that of each micro-batch; of what is no tensor that of the first.

        Raises:
            ValueError: as for `step`; or nothing is split along dim 0, and ``split`` does not say along which dim to join.
        """
        microbatches = self._microbatches(args, kwargs, None)
        dim = output_dim(self._split, {**dict(zip(argument_names(self._pieces.signature, len(args)), args, strict=True)), **kwargs})
        self._begin(microbatches, train=False)
        self._evaluation.run()
        outputs = {i: output for stage in self.stages.values() for i, output in stage.outputs.items()}
        return join_outputs([outputs[i] for i in sorted(outputs)], dim) if outputs else None

    def use_optimizer(self, make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> dict[int, torch.optim.Optimizer]:
        """Let the STEPs of an asynchronous schedule (PipeDream, PipeDream-2BW) step, each stage by itself, while micro-batches are on their way.

        From now on each call of `step` is a stream of micro-batches: the gradient of a STEP is that of the mean loss of the micro-batches
        that it gathers, made from the weights with which they began (`partkit.pipeline_parallel.execution.versions`).

        Args:
            make: makes an optimizer of the parameters of a stage.

        Returns:
            The optimizers of this rank's stages; a stage with nothing to train has none.

        Raises:
            ValueError: the schedule has no STEP, or stages share parameters, which would part.

        Example:
            >>> import torch, partkit as pk
            >>> def train(comm):
            ...     net = torch.nn.Sequential(*[torch.nn.Linear(1, 1, bias=False) for _ in range(2)])
            ...     for layer in net:
            ...         torch.nn.init.constant_(layer.weight, 1.0)
            ...     model = pk.PipelineParallel(net, comm, loss=torch.nn.functional.mse_loss, schedule="pipedream", num_microbatches=4)
            ...     model.use_optimizer(lambda parameters: torch.optim.SGD(parameters, lr=0.1))
            ...     model.step(torch.ones(4, 1), target=torch.zeros(4, 1))
            ...     return model.versions
            >>> with pk.SimulatedWorld(2) as world:
            ...     world.run(train)
            [{0F0: 0, 0F1: 0, 0F2: 1, 0F3: 2}, {1F0: 0, 1F1: 1, 1F2: 2, 1F3: 3}]
        """
        check_steps(self.schedule, self._pieces.stages)
        self._gathered = gathered(self.schedule)
        optimizers = {}
        for number, stage in self.stages.items():
            if trained := [parameter for parameter in stage.piece.module.parameters() if parameter.requires_grad]:
                optimizers[number] = make(trained)
                stage.versions = WeightVersions(stage.piece.module, optimizers[number], versions_of(self.schedule, number))
        return optimizers

    def before_each(self, do: Callable[[Action], None] | None) -> None:
        """Call a function before each action of this rank's list in a step: the place for what a schedule does beside computing.

        Args:
            do: gets the action. UNSHARD, RESHARD and REDUCE_GRAD do nothing by themselves, so they can stand for what it does. None: no longer.

        Example:
            >>> import torch, partkit as pk
            >>> def train(comm):
            ...     model, seen = pk.PipelineParallel([torch.nn.Linear(1, 1)], comm, loss=torch.nn.functional.mse_loss, num_microbatches=2), []
            ...     model.before_each(seen.append)
            ...     model.step(torch.ones(2, 1), target=torch.ones(2, 1))
            ...     return seen
            >>> with pk.SimulatedWorld(1) as world:
            ...     world.run(train)
            [[0F0, 0B0, 0F1, 0B1]]
        """
        self._training_step.before = do

    @property
    def versions(self) -> dict[Action, int]:
        """By forward of this rank in the last step: how many STEPs its weights, and those of its backward, had seen; see `use_optimizer`."""
        return {Action(stage.number, "F", i): v for stage in self.stages.values() if stage.versions is not None for i, v in stage.versions.used.items()}

    # -- helpers -------------------------------------------------------------------------------------------------

    def _step_inside(self, stage: int) -> None:
        versions = self.stages[stage].versions
        if versions is not None:
            versions.step()

    def _microbatches(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> list[Microbatch]:
        names = argument_names(self._pieces.signature, len(args))
        for name in kwargs:
            if name not in self._pieces.left_out and not any(piece.takes(name) for piece in self._pieces.stages):
                raise ValueError(f"no stage takes the keyword argument {name!r}")
        if self._pieces.by_name:
            args, kwargs = (), self._without_defaults({**dict(zip(names, args, strict=True)), **kwargs})
        split = {name: dim for name, dim in self._split.items() if name != OUTPUT and (name != TARGET or target is not None)}
        return split_batch(self.schedule.num_microbatches, split, names, args, kwargs, target)

    def _without_defaults(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a batch without those that the graph has left out, which must have their default."""
        for name, default in self._pieces.left_out.items():
            if name in given and given.pop(name) is not default:
                raise ValueError(
                    f"{name} kept its default, {default!r}, when the model was cut along its graph; if batches have another, say so when it is cut: "
                    f"PipelineParallel(..., split={{{name!r}: 0}}), with the dim of its rows, or None if it has none"
                )
        return given

    def _begin(self, microbatches: Sequence[Microbatch], *, train: bool) -> None:
        """Tell each stage what it is to do."""
        p = self.schedule.num_stages
        has_loss = train and any(stage % p == p - 1 for stage in self.stages)
        weights = self._weights(microbatches, self._gathered) if has_loss else [1.0] * len(microbatches)
        shares: dict[int, dict[int, Share]] = {stage: {} for stage in self.stages}
        for i, forms in enumerate(self._announcements.of_step(microbatches)):
            for stage, (incoming, outgoing) in forms.items():
                shares[stage][i] = Share(microbatches[i], weights[i], incoming, outgoing)
        for number in self.stages:
            self.stages[number].begin(shares[number], train=train)

    def _weights(self, microbatches: Sequence[Microbatch], together: Iterable[Sequence[int]]) -> list[float]:
        """The weight of each micro-batch's loss in that of all with which it is taken together."""
        found = [0.0] * len(microbatches)
        for some in together:
            shares = [microbatches[i] for i in some]
            for i, weight in zip(some, self.loss.weights([share.target for share in shares], [share.rows for share in shares]), strict=True):
                found[i] = weight
        return found

    def _losses(self, microbatches: Sequence[Microbatch]) -> Step:
        found = {i: loss for stage in self.stages.values() for i, loss in stage.losses.items()}
        if not found:
            return Step(None, None)
        of_batch = self._weights(microbatches, (range(len(microbatches)),))
        losses = torch.stack([found[i] if found[i].dim() == 0 else found[i].reshape(()) for i in sorted(found)])
        weights = torch.tensor([of_batch[i] for i in sorted(found)], dtype=losses.dtype, device=losses.device)
        return Step((losses * weights).sum(), losses)
