"""The list of scenarios: to add one, write a module beside this file and name it here."""

from lab.scenario import Scenario
from scenarios import admin, basics, errors, groups, large, mock, small, tls, waits

ALL: tuple[Scenario, ...] = (
    basics.SCENARIO,
    groups.SCENARIO,
    large.SCENARIO,
    waits.SCENARIO,
    admin.SCENARIO,
    errors.SCENARIO,
    tls.SCENARIO,
    *small.SCENARIOS,
    mock.SCENARIO,
)
