"""Lists the settings that plugins export, and checks them against the pages for users.

Usage: plugin_settings.py DOCS_DIR PLUGIN...
"""

import ctypes
import pathlib
import sys


class Setting(ctypes.Structure):
    """roda_setting of <roda/abi/settings.h>."""

    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("is_number", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("default_text", ctypes.c_char_p),
        ("least", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("meaning", ctypes.c_char_p),
    )


def settings_of(plugin: str) -> list[Setting]:
    """All that the plugin exports."""
    entry = ctypes.CDLL(plugin).roda_settings_v1
    entry.restype = ctypes.POINTER(Setting)
    found = []
    while setting := entry(ctypes.c_uint32(len(found))):
        found.append(setting.contents)
    return found


def main() -> None:
    pages = "".join(page.read_text() for page in pathlib.Path(sys.argv[1]).rglob("*.md"))
    for plugin in sys.argv[2:]:
        settings = settings_of(plugin)
        assert settings, f"{plugin} exports no settings"
        for setting in settings:
            name = setting.name.decode()
            print(name, setting.default_text.decode(), setting.unit.decode(), setting.meaning.decode())
            assert setting.struct_size == ctypes.sizeof(Setting), name
            assert setting.meaning.endswith(b"."), name
            if setting.is_number:
                assert setting.least <= int(setting.default_text) <= setting.most, name
            is_of_tests = name.startswith("RODA_TEST_")
            assert (name in pages) != is_of_tests, f"{name}: pages tell of users' settings, and of no others"


if __name__ == "__main__":
    main()
