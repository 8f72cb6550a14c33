"""What a type in a JSON schema may have besides its name, said where a dataclass has the field."""

from __future__ import annotations


class Keys:
    """Keys of a JSON schema, for typing.Annotated: Annotated[int, Keys(minimum=0)]."""

    def __init__(self, **keys: object) -> None:
        self.keys = {name: list(value) if isinstance(value, tuple) else value for name, value in keys.items()}
