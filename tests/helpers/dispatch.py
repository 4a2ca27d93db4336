"""A dispatch mode of torch that costs little."""

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):
    """Sees each operator, without torch.compile's guards around it.

    With them each operator goes through three more functions, and the first one loads all of
    torch's compiler.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
