"""The butterfly: everyone meets everyone, what is given is there, and backwards it is the same film."""

from __future__ import annotations

import pytest

from partkit.butterfly import doubling, halving, teams

PLACES = [1, 2, 4, 8, 16]


@pytest.mark.parametrize("places", PLACES)
def test_doubling_gives_what_is_there_and_ends_with_everything(places: int) -> None:
    has = {place: {place} for place in range(places)}
    for step in range(places.bit_length() - 1):
        exchanges = {place: doubling(place, places)[step] for place in range(places)}
        for place, (partner, give, take) in exchanges.items():
            assert exchanges[partner] == (place, take, give)
            assert has[place] == set(give)
        has = {place: {*give, *take} for place, (_, give, take) in exchanges.items()}
    assert all(blocks == set(range(places)) for blocks in has.values())


@pytest.mark.parametrize("places", PLACES)
def test_halving_ends_with_everyone_in_charge_of_its_own_block(places: int) -> None:
    charge = {place: set(range(places)) for place in range(places)}
    for step in range(places.bit_length() - 1):
        for place in range(places):
            partner, give, take = halving(place, places)[step]
            assert halving(partner, places)[step] == (place, take, give)
            assert charge[place] == {*give, *take} and len(give) == len(take)
            charge[place] = set(take)
    assert all(blocks == {place} for place, blocks in charge.items())


@pytest.mark.parametrize("size", range(1, 18))
def test_teams_are_a_power_of_two_of_one_or_two_neighbours(size: int) -> None:
    every = teams(size)
    assert len(every) in PLACES and len(every) <= size < 2 * len(every)
    assert [rank for team in every for rank in team] == list(range(size))
    assert {len(team) for team in every} <= {1, 2}
