"""The list of scenarios: to add one, write a module beside this file and name it here."""

from lab.scenario import Scenario
from scenarios import (
    admin,
    admin_many,
    basics,
    cluster,
    codecs,
    errors,
    faults_protocol,
    foreign,
    groups,
    large,
    mock,
    next_groups,
    old,
    sasl,
    small,
    tls,
    transactions,
    waits,
)

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
    codecs.SCENARIO,
    transactions.SCENARIO,
    sasl.SCENARIO,
    next_groups.SCENARIO,
    admin_many.SCENARIO,
    cluster.SCENARIO,
    *old.SCENARIOS,
    foreign.SCENARIO,
    *faults_protocol.SCENARIOS,
)
