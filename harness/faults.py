"""All classes and constants of scripts, under one name. The modules of `harness.script` explain them."""

from harness.script.brokers import *
from harness.script.faults import *
from harness.script.names import *
from harness.script.nodes import *
from harness.script.script import *
from harness.script.workload import *
