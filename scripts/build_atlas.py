"""Build the embedded graph `atlas`: facts about the world's countries and territories.

The sources are three packages of the npm registry; fetch them into an empty folder and name that folder:

    mkdir sources && cd sources
    npm pack world-countries@5.1.0 cldr-core@48.2.0 cldr-localenames-full@48.2.0
    cd .. && python scripts/build_atlas.py sources

The result, src/anykg/data/embedded/atlas.tsv.gz, depends on nothing else: the same packages give the same bytes.
ATLAS.md beside it says what the relations mean and under which licences the facts come.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src" / "anykg" / "io" / "embedded" / "atlas.tsv.gz"
CONTINENTS = ("002", "003", "005", "009", "142", "150")
"""UN codes: Africa, North America, South America, Oceania, Asia, Europe."""
GROUPS = ("UN", "EU")
SPOKEN_PERCENT = 10.0
"""A language that so many of a country's people speak is widely spoken there."""
CURRENCY_NAMES = {
    "DKK": "Danish krone",
    "GBP": "British pound",
    "GEL": "Georgian lari",
    "GMD": "Gambian dalasi",
    "MKD": "Macedonian denar",
    "NOK": "Norwegian krone",
}
"""Where the source's names are ambiguous, or differ from country to country."""
WEEKDAYS = {"mon": "Monday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday"}
CLOCKS = {"H": "24-hour clock", "h": "12-hour clock"}

Fact = tuple[str, str, str]


class Names:
    """Names that mean one thing: where two kinds of things share a name, the kind that comes later carries it along.

    >>> names = Names()
    >>> names("country", "Luxembourg"), names("city", "Luxembourg"), names("city", "Luxembourg")
    ('Luxembourg', 'Luxembourg (city)', 'Luxembourg (city)')
    """

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}

    def __call__(self, kind: str, name: str) -> str:
        return name if self._kinds.setdefault(name, kind) == kind else f"{name} ({kind})"


class Sources:
    """The JSON files of the packages in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.countries: list[dict[str, Any]] = self._read("world-countries", "countries.json")

    def supplemental(self, name: str) -> Any:
        """One of CLDR's supplemental tables."""
        return self._read("cldr-core", f"supplemental/{name}.json")["supplemental"]

    def english(self, kind: str) -> dict[str, str]:
        """CLDR's English names by code: languages, scripts or territories."""
        table = self._read("cldr-localenames-full", f"main/en/{kind}.json")
        names: dict[str, str] = table["main"]["en"]["localeDisplayNames"][kind]
        return names

    def _read(self, package: str, path: str) -> Any:
        archives = sorted(self._folder.glob(f"{package}-[0-9]*.tgz"))
        if len(archives) != 1:
            raise SystemExit(
                f"{self._folder}: expected one archive {package}-*.tgz, found {len(archives)}; run npm pack {package}."
            )
        with tarfile.open(archives[0]) as archive:
            member = archive.extractfile(f"package/{path}")
            if member is None:
                raise SystemExit(
                    f"{archives[0]}: expected a file package/{path}, found none; use the version named above."
                )
            return json.load(member)


def build(sources: Sources) -> list[Fact]:
    """All facts, sorted."""
    names = Names()
    country_names = {row["cca2"]: names("country", row["name"]["common"]) for row in sources.countries}
    facts = {
        *place_facts(sources, names, country_names),
        *border_facts(sources, country_names),
        *capital_facts(sources, names, country_names),
        *language_facts(sources, names, country_names),
        *currency_facts(sources, names, country_names),
        *custom_facts(sources, country_names),
        *time_facts(sources, country_names),
    }
    return sorted(facts)


def place_facts(sources: Sources, names: Names, countries: dict[str, str]) -> Iterator[Fact]:
    """Continents, subregions, groups of states, telephone zones, access to the sea."""
    contained = sources.supplemental("territoryContainment")["territoryContainment"]
    territories = sources.english("territories")
    for code in CONTINENTS:
        for member in leaves(contained, code):
            if member in countries:
                yield countries[member], "on continent", names("continent", territories[code])
    for code in GROUPS:
        for member in leaves(contained, code):
            yield countries[member], "member of", names("organisation", territories[code])
    for row in sources.countries:
        country = countries[row["cca2"]]
        yield country, "lies", "inland" if row["landlocked"] else "by the sea"
        if row["subregion"]:
            subregion = names("subregion", row["subregion"])
            yield country, "in subregion", subregion
            yield subregion, "part of", names("continent", row["region"])
        if row["unRegionalGroup"]:
            yield country, "in UN regional group", row["unRegionalGroup"]
        if row["idd"]["root"]:
            yield country, "in telephone zone", f"Telephone zone {row['idd']['root']}"


def leaves(contained: dict[str, Any], code: str) -> Iterator[str]:
    """The territories inside a territory that contain no others."""
    if code not in contained:
        yield code
        return
    for member in contained[code]["_contains"]:
        yield from leaves(contained, member)


def border_facts(sources: Sources, countries: dict[str, str]) -> Iterator[Fact]:
    """Borders that both sides report."""
    by_code = {row["cca3"]: row for row in sources.countries}
    for code, row in by_code.items():
        for other in row["borders"]:
            if code in by_code[other]["borders"]:
                yield countries[row["cca2"]], "borders", countries[by_code[other]["cca2"]]


def capital_facts(sources: Sources, names: Names, countries: dict[str, str]) -> Iterator[Fact]:
    """Capitals; cities that share a name are told apart by their countries."""
    counts = Counter(city for row in sources.countries for city in row["capital"])
    for row in sources.countries:
        country = countries[row["cca2"]]
        for city in row["capital"]:
            yield country, "has capital", names("city", city) if counts[city] == 1 else f"{city} ({country})"


def language_facts(sources: Sources, names: Names, countries: dict[str, str]) -> Iterator[Fact]:
    """Official and widely spoken languages, and the scripts of these languages."""
    aliases = sources.supplemental("aliases")["metadata"]["alias"]["languageAlias"]
    known = sources.english("languages")
    used: dict[str, str] = {}
    for row in sources.countries:
        for code, name in row["languages"].items():
            replacement = aliases.get(code, {}).get("_replacement", code)
            # Dari (prs) is Persian as spoken in Afghanistan (fa-AF): it keeps its own code.
            language = used.setdefault(code if "-" in replacement else replacement, names("language", name))
            yield countries[row["cca2"]], "official language", language
    for territory, about in sources.supplemental("territoryInfo")["territoryInfo"].items():
        for tag, share in about.get("languagePopulation", {}).items():
            code = tag.split("_")[0]  # the script is told by another fact
            if (
                territory in countries
                and float(share["_populationPercent"]) >= SPOKEN_PERCENT
                and code in {**known, **used}
            ):
                language = used.get(code) or names("language", known[code])
                used[code] = language
                yield countries[territory], "widely spoken language", language
    script_names = sources.english("scripts")
    for code, about in sources.supplemental("languageData")["languageData"].items():
        for script in about.get("_scripts", []) if code in used else []:
            name = script_names.get(f"{script}-alt-stand-alone", script_names[script])
            yield used[code], "written in", f"{name} script"


def currency_facts(sources: Sources, names: Names, countries: dict[str, str]) -> Iterator[Fact]:
    """Currencies in use."""
    for row in sources.countries:
        for code, about in row["currencies"].items():
            yield countries[row["cca2"]], "uses currency", names("currency", CURRENCY_NAMES.get(code, about["name"]))


def custom_facts(sources: Sources, countries: dict[str, str]) -> Iterator[Fact]:
    """The first day of the week and the clock, where CLDR names the country itself."""
    for code, day in sources.supplemental("weekData")["weekData"]["firstDay"].items():
        if code in countries:
            yield countries[code], "starts the week on", WEEKDAYS[day]
    for code, about in sources.supplemental("timeData")["timeData"].items():
        if code in countries:
            yield countries[code], "uses clock", CLOCKS[about["_preferred"]]


def time_facts(sources: Sources, countries: dict[str, str]) -> Iterator[Fact]:
    """The families of time zones in use today ("Europe Central Time"), which neighbours share."""
    zones = sources.supplemental("metaZones")["metaZones"]["metazoneInfo"]["timezone"]
    for entry in sources.supplemental("windowsZones")["windowsZones"]["mapTimezones"]:
        zone = entry["mapZone"]
        if zone["_territory"] not in countries:
            continue
        for city in zone["_type"].split():
            periods: Any = zones
            for part in city.split("/"):
                periods = periods.get(part, {})
            if periods and "_to" not in periods[-1]["usesMetazone"]:
                family = periods[-1]["usesMetazone"]["_mzone"].replace("_", " ")
                yield countries[zone["_territory"]], "in time zone", f"{family} Time"


def write(facts: Iterable[Fact], path: Path) -> None:
    """Write a tab-separated table with a header; no date inside, so that equal facts are equal files."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        for fact in (("head", "relation", "tail"), *facts):
            file.write(("\t".join(fact) + "\n").encode())
    path.write_bytes(buffer.getvalue())


def main() -> None:
    """Build the file and print how many facts each relation has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where npm pack has put the packages")
    parser.add_argument("--target", type=Path, default=TARGET, help="the file to write")
    arguments = parser.parse_args()
    facts = build(Sources(arguments.folder))
    write(facts, arguments.target)
    for relation, count in Counter(relation for _, relation, _ in facts).most_common():
        print(f"{count:6,}  {relation}")
    entities = {end for head, _, tail in facts for end in (head, tail)}
    print(f"{len(facts):6,}  triplets, {len(entities):,} entities, {arguments.target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
