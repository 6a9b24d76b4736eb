"""Text for people: nothing that came from elsewhere may steer their terminal."""


def printable(text: str) -> str:
    """`text` on one line: what is no printable character is escaped, a line feed too."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "replace").decode() for one in text)


def printable_lines(text: str) -> str:
    """`text` with its lines kept: any other character that is not printable, but a tab, is escaped."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
