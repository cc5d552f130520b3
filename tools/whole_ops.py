"""Print the ops that need an operand in one piece (`whole=True`).

The list is closed: an op may appear here only if docs/decisions says why it cannot be cut.
"""

from infinitensor.ops.table.registry import TABLE


def whole_ops() -> list[str]:
    return sorted(name for name, op in TABLE.items() if op.whole)


def main() -> None:
    names = whole_ops()
    print(f"ops that need an operand in one piece: {len(names)} of {len(TABLE)}")
    for name in names:
        print(f"  {name}")


if __name__ == "__main__":
    main()
