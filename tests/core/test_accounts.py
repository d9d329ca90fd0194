"""Users, by their names."""

from aserve.core.accounts import name_user


def test_numbers_stand_for_missing_names():
    assert name_user(0) == "user root"
    assert name_user(3_999_999_999) == "user 3999999999"
