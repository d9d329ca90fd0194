"""Users, by their names."""

from aserve.core.accounts import name_user, user_name


def test_numbers_stand_for_missing_names():
    assert name_user(0) == "user root" and user_name(0) == "root"
    assert name_user(3_999_999_999) == "user 3999999999"
