"""The vocabulary of the generated word problems: scenes, names and sentence frames.

Frames are `str.format` templates. Slots: name, pron (She/He), pron_low, units, one, boxes, coins, gain, lose, times,
the numbers a, b, n, d, p, and calc, a worked calculation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Scene:
    """What a story is about.

    Attributes:
        units: what is counted, plural.
        one: the same, singular.
        boxes: what the units come in, plural.
        gains: verbs by which units are added.
        losses: verbs by which units go away.
        starts: frames of the opening sentence: a boxes with b units each.
        coins: what the units are traded for.
    """

    units: str
    one: str
    boxes: str
    gains: tuple[str, ...]
    losses: tuple[str, ...]
    starts: tuple[str, ...]
    coins: str = "cents"


_HELD: Final = (
    "{name} has {a} {boxes} with {b} {units} in each.",
    "{name} fills {a} {boxes} with {b} {units} each.",
    "{name} owns {a} {boxes} of {b} {units}.",
)

SCENES: Final = (
    Scene("apples", "apple", "crates", ("picks", "buys"), ("sells", "gives away"), _HELD),
    Scene("cookies", "cookie", "trays", ("bakes", "gets"), ("sells", "burns"), _HELD),
    Scene("books", "book", "shelves", ("buys", "finds"), ("lends out", "sells"), _HELD),
    Scene("marbles", "marble", "jars", ("wins", "finds"), ("loses", "gives away"), _HELD),
    Scene("stamps", "stamp", "albums", ("buys", "gets"), ("gives away", "loses"), _HELD),
    Scene("bricks", "brick", "stacks", ("gets", "buys"), ("uses", "breaks"), _HELD),
    Scene("eggs", "egg", "baskets", ("finds", "gets"), ("breaks", "sells"), _HELD),
    Scene("pencils", "pencil", "packs", ("buys", "finds"), ("loses", "lends out"), _HELD),
    Scene("beads", "bead", "bags", ("buys", "makes"), ("uses", "loses"), _HELD),
    Scene("cards", "card", "boxes", ("wins", "buys"), ("gives away", "loses"), _HELD),
    Scene("bottles", "bottle", "cases", ("finds", "buys"), ("sells", "breaks"), _HELD),
    Scene("roses", "rose", "bunches", ("picks", "buys"), ("sells", "gives away"), _HELD),
    Scene(
        "dollars",
        "dollar",
        "weeks",
        ("earns", "gets"),
        ("spends", "gives away"),
        ("{name} saves {b} {units} a week for {a} {boxes}.", "For {a} {boxes}, {name} saves {b} {units} a week."),
        coins="tokens",
    ),
    Scene(
        "points",
        "point",
        "games",
        ("wins", "gets"),
        ("loses", "spends"),
        ("{name} wins {b} {units} in each of {a} {boxes}.", "In {a} {boxes}, {name} scores {b} {units} each."),
        coins="tokens",
    ),
    Scene(
        "loaves",
        "loaf",
        "days",
        ("bakes", "buys"),
        ("sells", "burns"),
        ("{name} bakes {b} {units} a day for {a} {boxes}.", "For {a} {boxes}, {name} bakes {b} {units} a day."),
    ),
)

PEOPLE: Final = (
    *((name, "She") for name in ("Anna", "Maria", "Lena", "Ruth", "Nora", "Ida", "Sara", "Mei", "Amara", "Zoe")),
    *((name, "He") for name in ("Omar", "Tom", "Ben", "Ivan", "Paul", "Leo", "Raj", "Max", "Kofi", "Hugo")),
)

ASK: Final = {
    "add": (
        "{pron} {gain} {n} more {units}.",
        "Then {name} {gain} {n} {units}.",
        "Later {pron_low} {gain} another {n} {units}.",
    ),
    "sub": (
        "{pron} {lose} {n} {units}.",
        "Then {name} {lose} {n} of the {units}.",
        "Later {pron_low} {lose} {n} {units}.",
    ),
    "add_product": (
        "{a} friends bring {b} {units} each.",
        "Then {pron_low} gets {b} {units} from each of {a} friends.",
        "{pron} {gain} {b} more {units} on each of {a} days.",
    ),
    "sub_product": (
        "{pron} gives {b} {units} to each of {a} friends.",
        "Then {a} friends take {b} {units} each.",
        "{pron} {lose} {b} {units} on each of {a} days.",
    ),
    "times": (
        "Then the number of {units} {times}.",
        "By the next month, the number of {units} {times}.",
    ),
    "price": (
        "Each {one} is worth {p} {coins}. How many {coins} is that?",
        "{pron} trades each {one} for {p} {coins}. How many {coins} does {pron_low} get?",
    ),
    "share": (
        "The {units} are shared equally among {d} people. How many {units} does each get?",
        "{pron} splits them into {d} equal parts. How many {units} are in each part?",
    ),
}

TELL: Final = {
    "start": (
        "{name} starts with {calc} {units}.",
        "The {boxes} give {calc} {units}.",
        "{a} {boxes} of {b} make {calc} {units}.",
        "There are {calc} {units} at the start.",
    ),
    "add": (
        "{name} has {calc} {units}.",
        "With {n} more, it is {calc} {units}.",
        "Adding {n} gives {calc} {units}.",
        "That makes {calc} {units}.",
    ),
    "sub": (
        "{name} has {calc} {units}.",
        "Without {n}, it is {calc} {units}.",
        "Taking away {n} leaves {calc} {units}.",
        "That leaves {calc} {units}.",
    ),
    "product": (
        "{a} times {b} is {calc} {units}.",
        "All {a} together are {calc} {units}.",
        "This part is {calc} {units}.",
    ),
    "times": (
        "{name} has {calc} {units}.",
        "The number becomes {calc} {units}.",
        "That makes {calc} {units}.",
    ),
    "price": (
        "At {p} {coins} each, that is {calc} {coins}.",
        "The {units} bring {calc} {coins}.",
        "{name} gets {calc} {coins}.",
    ),
    "share": (
        "Each part is {calc} {units}.",
        "Splitting by {d} gives {calc} {units}.",
        "Shared equally, that is {calc} {units}.",
    ),
}

OPENERS: Final = ("First, ", "To begin, ")
LINKS: Final = ("Next, ", "Then ", "So ", "Now ")
CLOSERS: Final = ("Finally, ", "In the end, ", "So ")
