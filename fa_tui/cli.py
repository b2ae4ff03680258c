"""The command line."""


def main() -> int:
    raise NotImplementedError
