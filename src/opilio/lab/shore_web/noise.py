"""Pages about nothing in particular, made by tables of words: what a focused crawler should leave alone.

Some use the words of the topics in passing, as the real web does: a cottage with a view of a lighthouse, a torch for
those who walk at night, a tide table of a ferry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from opilio.lab.local_web.frame import bullet_list, link
from opilio.lab.shore_web.sites import LEGAL_HOST, Website

SITES: dict[str, Website] = {
    "shop": Website("outdoorshop.test", "The Outdoor Shop", "Everything for out there", "#2e7d32", "tiles"),
    "scores": Website("scores.test", "Saturday Scores", "Results of the coast league", "#1565c0", "tiles"),
    "cottages": Website("cottages.test", "Cottages by the Sea", "Sleep well, wake early", "#ad6a3d", "tiles"),
    "ferries": Website("ferries.test", "Island Ferries", "Timetables and fares", "#00695c", "waves"),
    "puzzles": Website("crosswords.test", "A Crossword a Day", "Across and down", "#6a1b5a", "tiles"),
    "legal": Website(LEGAL_HOST, "Legal Notices", "The small print", "#616161", "tiles"),
}

_CLUBS = (
    "Harbour Rovers",
    "Northgate",
    "Mill Lane Athletic",
    "Ropewalk United",
    "Old Quay",
    "Saltmarsh Town",
    "Bridge End",
    "Castle Wanderers",
    "Windmill Hill",
    "Kiln Road",
    "The Foundry",
    "Ferry Street",
)
_PRODUCTS = (
    (
        "Head torch",
        "a light beam of three hundred lumens, a red light for maps, and a battery that lasts for nine hours",
    ),
    ("Rain jacket", "taped seams, a hood with a stiff peak, and two pockets that can be reached with a rucksack on"),
    ("Thermos flask", "steel inside and out; tea put in at six in the morning is hot at noon and warm at six"),
    ("Wool socks", "knitted of merino wool with a double heel, in grey, dark blue and a green that nobody ordered"),
    ("Rubber boots", "natural rubber, lined with cotton, with a sole that holds on wet rock as well as boots can"),
    ("Binoculars", "ten times forty-two, waterproof and light, with a strap that does not cut into the neck"),
    ("Walking stick", "ash wood with an iron tip, cut to the height of your hip, which you write into the order"),
    ("Map case", "clear on both sides and closed by a roll, so that it floats when it is dropped into the water"),
    ("Camping stove", "burns gas, spirit or paraffin, boils a litre in four minutes and folds into its own pot"),
    ("Sleeping mat", "fills itself with air, weighs five hundred grams and comes with a patch in case of thorns"),
    ("Folding chair", "a chair with legs of aluminium which carries a hundred and twenty kilos and fits into a bag"),
    ("Fishing line", "a hundred metres of braided line, eight strands, hardly visible under water, in three strengths"),
)
_VIEWS = (
    "the lighthouse",
    "the mudflats at low tide",
    "a starry sky",
    "the moss on the roof next door",
    "the harbour wall",
    "nothing but sea",
)
_ROOMS = (
    "two bedrooms under the roof",
    "one large room with a stove",
    "three bedrooms and a bunk",
    "a kitchen one can sit in",
)
_RULES = (
    "Dogs are welcome if they wipe their feet.",
    "Please bring slippers.",
    "Bed linen is there, towels are not.",
    "The key is under the blue pot.",
    "The bus stops at the corner twice a day.",
)
_ISLES = ("Great Skerry", "Little Skerry", "Gull Holm", "Seal Island", "West Ness", "The Calf")
_CLUES = (
    ("Spinner of webs", "SPIDER"),
    ("It ebbs and flows", "TIDE"),
    ("Yellow fruit", "LEMON"),
    ("Opposite of old", "NEW"),
    ("Capital of Peru", "LIMA"),
    ("A king's chair", "THRONE"),
    ("It shines on ships", "BEACON"),
    ("Frozen water", "ICE"),
    ("Night flyer that likes wool", "MOTH"),
    ("Two and two", "FOUR"),
    ("Card above the king", "ACE"),
    ("Not heavy", "LIGHT"),
    ("Long grass by the lake", "REED"),
    ("Tool of a barber", "COMB"),
    ("Woven on a loom", "CLOTH"),
    ("A measure of land", "ACRE"),
)
_LEGAL = {
    "privacy": (
        "Privacy policy",
        "personal data",
        (
            "We store only what is necessary to show you the page, and delete it when it is no longer "
            "needed. You may ask us at any time which data we hold about you, have them corrected, and "
            "object to their use. Our servers keep a record of requests for fourteen days in order to "
            "find faults and attacks. No data are sold. Third parties receive data only when a law "
            "demands it or when you have agreed."
        ),
    ),
    "cookies": (
        "Cookie notice",
        "cookies",
        (
            "A cookie is a small file which your browser keeps for us. We use one that remembers whether "
            "you have seen this notice. You can refuse it in the settings of your browser; the notice "
            "will then appear on each visit. Cookies of others are not used. If that changes, this page "
            "will be changed as well and will bear a new date."
        ),
    ),
    "terms": (
        "Terms of use",
        "use of these pages",
        (
            "By using these pages you agree that they are provided as they are, without any warranty. The"
            " operator is not liable for damage that results from their use, except where it is caused on"
            " purpose or by gross negligence. Links to other sites were checked when they were set; their"
            " owners alone are responsible for what is written there. The law of the place of the "
            "operator applies."
        ),
    ),
    "imprint": (
        "Imprint",
        "the operator",
        (
            "Responsible for the content according to the usual laws: the operator. The operator can be "
            "reached by letter, on working days. Names of products are the property of their owners and "
            "are used without any sign of it. Should a clause of this notice be invalid, the others "
            "remain as they are."
        ),
    ),
    "accessibility": (
        "Accessibility statement",
        "accessibility",
        (
            "We want everyone to be able to read these pages, with or without a mouse, with or without "
            "seeing the pictures. Pictures have a description, headings are in order, and colours differ "
            "enough. If you meet an obstacle, write to us, and we will remove it or explain why we "
            "cannot. This statement was last checked in the spring."
        ),
    ),
}


@dataclass(frozen=True)
class NoisePage:
    """A page before it is framed."""

    site: str
    path: str
    title: str
    main: str


def noise_pages(rng: random.Random) -> Iterator[NoisePage]:
    """All of them; each site has a front page that leads to the others."""
    makers = {
        "shop": _shop,
        "scores": _scores,
        "cottages": _cottages,
        "ferries": _ferries,
        "puzzles": _puzzles,
        "legal": _legal,
    }
    for site, make in makers.items():
        pages = list(make(site, rng))
        contents = bullet_list(link(page.path, page.title) for page in pages)
        name = SITES[site].name
        yield NoisePage(site, "/", name, f"<h1>{escape(name)}</h1>\n<p>{escape(SITES[site].motto)}.</p>\n{contents}")
        for place, page in enumerate(pages):
            near = [pages[place - 1], pages[(place + 1) % len(pages)]]
            steps = " &middot; ".join(link(other.path, other.title) for other in near)
            yield NoisePage(site, page.path, page.title, f"<h1>{escape(page.title)}</h1>\n{page.main}\n<p>{steps}</p>")


def _shop(site: str, rng: random.Random) -> Iterator[NoisePage]:
    for number, (name, text) in enumerate(_PRODUCTS * 2):
        is_set = number >= len(_PRODUCTS)
        title = f"{name}, set of two" if is_set else name
        price = rng.randint(9, 120) + 0.9
        main = (
            f"<p>{escape(name)}: {escape(text)}.</p>\n<p>Price: {price:.2f}. In stock: {rng.randint(0, 40)}. "
            f"Delivery in {rng.randint(2, 5)} days, free above 60.</p>\n"
            "<p>Customers also bought: " + escape(", ".join(other for other, _ in rng.sample(_PRODUCTS, 3))) + ".</p>\n"
            "<p>Add to basket. Returns are accepted for thirty days if the label is still on.</p>"
        )
        yield NoisePage(site, f"/products/{name.lower().replace(' ', '-')}{'-set' if is_set else ''}.html", title, main)


def _scores(site: str, rng: random.Random) -> Iterator[NoisePage]:
    for day in range(1, 31):
        clubs = rng.sample(_CLUBS, len(_CLUBS))
        games = [
            (home, away, rng.randint(0, 4), rng.randint(0, 3))
            for home, away in zip(clubs[::2], clubs[1::2], strict=True)
        ]
        rows = "".join(
            f"<tr><td>{home}</td><td>{ours}:{theirs}</td><td>{away}</td></tr>" for home, away, ours, theirs in games
        )
        home, away, ours, theirs = games[0]
        sky = rng.choice(("heavy rain", "bright sun", "a stiff wind"))
        cause = rng.choice(("corner", "free kick", "long throw", "mistake by the keeper"))
        main = (
            f"<table>{rows}</table>\n<p>{home} met {away} in {sky} before {rng.randint(80, 900)} spectators. "
            f"The final score was {ours} to {theirs}; the first goal fell in minute {rng.randint(2, 88)} by a {cause}. "
            f"The referee showed {rng.randint(1, 6)} yellow cards.</p>"
        )
        yield NoisePage(site, f"/season/day-{day}.html", f"Results of match day {day}", main)


def _cottages(site: str, rng: random.Random) -> Iterator[NoisePage]:
    names = [
        f"{first} {second}"
        for first in ("Gull", "Anchor", "Heather", "Pebble", "Lantern")
        for second in ("Cottage", "House", "Loft", "Barn", "Cabin")
    ]
    for name in names:
        main = (
            f"<p>{name} has {rng.choice(_ROOMS)} and a window from which you see {rng.choice(_VIEWS)}. It sleeps "
            f"{rng.randint(2, 7)}, costs {rng.randint(45, 160)} a night from May to September and less in winter.</p>\n"
            f"<p>{' '.join(rng.sample(_RULES, 3))} The beach is {rng.randint(2, 30)} minutes away on foot, the baker "
            f"{rng.randint(2, 15)}. Check-in from three o'clock, check-out until ten.</p>"
        )
        yield NoisePage(site, f"/{name.lower().replace(' ', '-')}/", name, main)


def _ferries(site: str, rng: random.Random) -> Iterator[NoisePage]:
    for isle in _ISLES:
        for season in ("summer", "winter"):
            times = sorted(rng.sample(range(6, 21), 5 if season == "summer" else 3))
            rows = "".join(
                f"<tr><td>{hour}:{rng.choice(('05', '20', '40'))}</td><td>pier {rng.randint(1, 3)}</td></tr>"
                for hour in times
            )
            main = (
                f"<table>{rows}</table>\n<p>The crossing to {isle} takes {rng.randint(20, 95)} minutes. Return ticket "
                f"{rng.randint(6, 24)}, children half, bicycles {rng.randint(2, 5)}. At very low tide "
                "the ship may be late. Please be at the pier ten minutes before departure.</p>"
            )
            yield NoisePage(
                site, f"/{isle.lower().replace(' ', '-')}/{season}.html", f"{isle}: {season} timetable", main
            )


def _puzzles(site: str, rng: random.Random) -> Iterator[NoisePage]:
    for number in range(1, 25):
        clues = rng.sample(_CLUES, 8)
        across = bullet_list(f"{place * 2 + 1}. {clue} ({len(word)})" for place, (clue, word) in enumerate(clues[:4]))
        down = bullet_list(f"{place * 2 + 2}. {clue} ({len(word)})" for place, (clue, word) in enumerate(clues[4:]))
        answers = " ".join(word for _, word in clues)
        main = f"<h2>Across</h2>\n{across}\n<h2>Down</h2>\n{down}\n<p>Solution of the day before: {answers}</p>"
        yield NoisePage(site, f"/puzzle-{number}.html", f"Crossword number {number}", main)


def _legal(site: str, rng: random.Random) -> Iterator[NoisePage]:
    for name, (title, subject, text) in _LEGAL.items():
        yield NoisePage(site, f"/{name}.html", title, f"<p>This page is about {subject}. {text}</p>")
