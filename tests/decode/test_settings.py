"""Settings of decoding: closed, bounded, and refused in one sentence that says what to do."""

from dataclasses import replace

import pytest

from qkv.config import plain, section
from qkv.decode.hypothesis import Marks
from qkv.decode.settings import SearchSettings
from qkv.decode.task import Task, limits_of
from qkv.errors import ConfigError, DataError
from tests.decode.toys import BOS, EOS, PAD, Recurrent, batch_of, searched


def test_the_defaults_are_the_papers() -> None:
    settings = SearchSettings()
    assert (settings.beams, settings.length_norm, settings.length_penalty) == (4, "gnmt", 0.6)
    assert limits_of(batch_of([7, 3]), [(), ()], settings) == [57, 53]


def test_a_config_gives_the_same_settings_and_comes_back() -> None:
    settings = section(SearchSettings, {"num_beams": 6, "length_norm": "average", "num_return_sequences": 2})
    assert settings == SearchSettings(num_beams=6, length_norm="average", num_return_sequences=2)
    assert section(SearchSettings, plain(settings)) == settings


def test_beams_follow_from_the_rest_unless_set() -> None:
    assert SearchSettings(do_sample=True).beams == 1
    assert SearchSettings(num_return_sequences=9).beams == 9
    assert SearchSettings(num_beams=2).beams == 2
    assert SearchSettings(do_sample=True, num_return_sequences=3).draws == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_beams": 0}, "num_beams is 0"),
        ({"num_beams": 2.5}, "num_beams is 2.5"),
        ({"temperature": 0.0, "do_sample": True}, "temperature is 0.0"),
        ({"temperature": float("nan"), "do_sample": True}, "temperature is nan"),
        ({"top_p": 1.5, "do_sample": True}, "top_p is 1.5"),
        ({"length_norm": "wu"}, "length_norm is 'wu'"),
        ({"length_penalty": 1e9}, "length_penalty is 1000000000.0"),
        ({"num_beams": 3, "num_return_sequences": 5}, "raise num_beams to 5"),
        ({"num_beams": 3, "do_sample": True}, "num_return_sequences=3"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "take at most 8"),
        ({"top_k": 10}, "add do_sample=true"),
        ({"temperature": 0.7}, "add do_sample=true"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        section(SearchSettings, given)


def test_settings_written_in_python_pass_the_same_bounds() -> None:
    with pytest.raises(ConfigError, match="num_beams is 0: input should be greater than 0"):
        SearchSettings(num_beams=0)


def test_unknown_settings_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match="num_beams"):
        section(SearchSettings, {"num_beam": 4})


def test_a_beam_wider_than_the_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_beams=13 is more than the vocabulary of 12 tokens; take at most 12"):
        searched(Recurrent(vocabulary=12), batch_of([4]), num_beams=13)
    assert len(searched(Recurrent(vocabulary=12), batch_of([4]), num_beams=12, max_new_tokens=4)[0]) == 1


def test_marks_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match="eos=12 is not in the model's vocabulary of 12"):
        Task(Recurrent(vocabulary=12), SearchSettings(), Marks(BOS, 12, PAD))


@pytest.mark.parametrize("prefix", [[[4], [EOS]], [[4], [12]], [[4], [-1]], [[4]]])
def test_impossible_prefixes_are_refused(prefix: list[list[int]]) -> None:
    with pytest.raises(DataError, match="prefix"):
        searched(Recurrent(vocabulary=12), batch_of([4, 4]), prefix=prefix)


def test_limits_count_the_prefix_and_leave_room_for_a_token() -> None:
    batch, prefixes = batch_of([4, 10]), [(5, 5, 5), ()]
    settings = SearchSettings(max_length_ratio=1.5, max_length_offset=2)
    assert limits_of(batch, prefixes, settings) == [8, 17]
    assert limits_of(batch, prefixes, SearchSettings(max_new_tokens=6)) == [9, 6]
    assert limits_of(batch, prefixes, SearchSettings(max_length_ratio=0.0, max_length_offset=1)) == [4, 1]


def test_without_a_source_a_limit_must_be_given() -> None:
    batch = replace(batch_of([4]), source=None)
    with pytest.raises(ConfigError, match="max_new_tokens is not set"):
        limits_of(batch, [()], SearchSettings())
    assert limits_of(batch, [(4, 5)], SearchSettings(max_new_tokens=3)) == [5]
