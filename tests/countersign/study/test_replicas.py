"""Several instances of one service: the least busy is asked, and one that went away no more."""

from countersign.study.replicas import Replicas


def test_work_goes_to_the_least_busy_and_the_first_among_equals() -> None:
    replicas = Replicas.of(["a", "b"])
    with replicas.least_busy() as first, replicas.least_busy() as second, replicas.least_busy() as third:
        assert (first.stub, second.stub, third.stub) == ("a", "b", "a")
    with replicas.least_busy() as again:
        assert (again.stub, again.busy) == ("a", 1)
    assert [one.busy for one in replicas.alive] == [0, 0]


def test_one_that_went_away_gets_no_more_work_and_the_last_is_kept() -> None:
    replicas = Replicas.of(["a", "b"])
    with replicas.least_busy() as lost:
        assert replicas.drop(lost)
        assert replicas.drop(lost), "told twice, it is still gone and another is left"
    with replicas.least_busy() as other:
        assert other.stub == "b"
        assert not replicas.drop(other)
    assert [one.stub for one in replicas.alive] == ["b"]
