from runyard.app.lru_map import LruMap


def make_full() -> LruMap[str, int]:
    found: LruMap[str, int] = LruMap(most=3)
    for number, key in enumerate("abc"):
        assert found.put(key, number) is None
    return found


def test_oldest_is_evicted_when_the_map_is_full() -> None:
    full = make_full()
    assert full.put("d", 3) == "a"
    assert list(full) == ["b", "c", "d"]


def test_entry_stays_when_it_was_read_or_written_lately() -> None:
    full = make_full()
    assert full.find("a") == 0
    assert full.put("b", 7) is None
    assert full.put("d", 3) == "c"
    assert [full.find(key) for key in "abcd"] == [0, 7, None, 3]


def test_nothing_is_evicted_when_an_entry_was_discarded() -> None:
    full = make_full()
    full.discard("b")
    full.discard("never there")
    assert full.put("d", 3) is None
    assert (len(full), "b" in full, "a" in full) == (3, False, True)


def test_looking_does_not_count_as_use_when_it_is_by_in() -> None:
    full = make_full()
    assert "a" in full
    assert full.put("d", 3) == "a"
