"""Cannot be imported."""

1 / 0  # noqa: B018
