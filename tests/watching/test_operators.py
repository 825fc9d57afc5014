"""The table of operators is that of the installed torch."""

from __future__ import annotations

import torch
import torch.distributed

from partkit.watching.operators import OPERATORS, WAIT

NOT_COMMUNICATION = {"c10d.check_for_nan", "_c10d_functional._wrap_tensor_autograd", WAIT}
MADE_OF_OTHERS = {"_c10d_functional.isend", "_c10d_functional.irecv", "_c10d_functional.batch_p2p_ops"}
"""Only compiled code uses these."""


def test_the_table_has_every_operator_of_this_torch_with_its_payload() -> None:
    schemas = {s.name.replace("::", "."): s for s in torch._C._jit_get_all_schemas() if s.name.startswith(("c10d::", "_c10d_functional::"))}
    assert schemas.keys() - OPERATORS.keys() <= NOT_COMMUNICATION | MADE_OF_OTHERS
    for name, operation in OPERATORS.items():
        arguments = {a.name for a in schemas[name].arguments}
        assert not operation.payload or operation.payload in arguments, name
        assert {"process_group", "group_name"} & arguments, name
