"""A first look at a store that fences writes: in which keys something may be wrong.

One walk goes over the accesses in order of invocation, one over the groups in order of their tokens: O(n). Most
histories need no more. The exact rules (`checkers.engines.fenced`) judge each key that this look is in doubt about.

The look assumes that the values of one token were written in the order of their invocations. Then a read of an earlier
value must not be invoked after some access of a later value had returned, and a read that was invoked before its write
only has to return after the write was invoked. The other rules: checkers/CONDITIONS.md, section 17.
"""

import numpy as np

from checkers.engines.fenced_accesses import ACCEPTED, READ_OK, REFUSED, UNKNOWN, AccessColumns, Range, Terms, layout
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.row_format import INFINITY

NOBODY = -1
"""The writer of a value that nobody has accessed so far. Lower numbers, NOBODY - 1 - key: a read of that key came
before the write. Other writers: 2 * group, and one more if the write was refused."""


@kernel
def doubtful(columns: AccessColumns, kind: Column, values: Range, group: Column, begin: Column, terms: Terms) -> Column:
    """Of each key whether the rules must judge it. kind, values: see `classified`; group, begin: see `Accesses`."""
    key, value, inv, ret = columns.key, columns.value, columns.inv, columns.ret
    keys, initial, strict = terms.keys, terms.initial, terms.strict
    count = begin[keys]
    base, total = layout(values, 2 * len(kind) + 64)
    if total < 0:
        return np.full(keys, True, np.bool_)
    doubt = np.empty(keys, np.bool_)
    for k in range(keys):
        doubt[k] = values.low[k] <= initial <= values.high[k]
    waiting = np.zeros(keys, np.int32)
    # Of each value: its write, when the first access to it returned, and the value written next under its token.
    write, done, after = np.full(total, NOBODY, np.int64), np.full(total, INFINITY, np.int64), no_rows(total)
    # Of each group: when its first access returned, when its first write and its last access were invoked, and what was
    # written last.
    over, opened = np.full(count, INFINITY, np.int64), np.full(count, INFINITY, np.int64)
    begun, last = np.full(count, -1, np.int64), no_rows(count)
    refused = [0][:0]
    for row in range(len(kind)):
        what = kind[row]
        if what == READ_OK:
            k = key[row]
            if value[row] == initial:
                begun[begin[k]] = inv[row]  # in the first group, which nothing can overtake
                continue
            place = base[k] + value[row]
            if not 0 <= place < total:
                doubt[k] = True
                continue
            word = write[place]
            if word < 0:
                if word == NOBODY:
                    write[place] = NOBODY - 1 - k
                    waiting[k] += 1
                elif word != NOBODY - 1 - k:
                    doubt[k] = True
                done[place] = min(done[place], ret[row])
                continue
            here = word >> 1
            if not begin[k] <= here < begin[k + 1] or word & 1:
                doubt[k] = True
                continue
            over[here] = min(over[here], ret[row])
            done[place] = min(done[place], ret[row])
            begun[here] = inv[row]
            later = after[place]
            while later >= 0:
                if done[later] < inv[row]:
                    doubt[k] = True
                    break
                later = after[later]
        elif what in (ACCEPTED, UNKNOWN, REFUSED):
            if what == REFUSED:
                refused.append(row)
            k, here = key[row], group[row]
            place = base[k] + value[row]
            word = write[place]
            if word == NOBODY - 1 - k and what != REFUSED and done[place] >= inv[row]:
                waiting[k] -= 1
            elif word != NOBODY:
                doubt[k] = True
                continue
            write[place] = 2 * here + (what == REFUSED)
            if what == REFUSED:
                continue
            if what == ACCEPTED:
                done[place] = min(done[place], ret[row])
            # A write that was neither answered nor read may have raised the bar, but need not have.
            if what == ACCEPTED or word != NOBODY:
                over[here] = min(over[here], done[place])
                begun[here] = inv[row]
            if last[here] < 0:
                opened[here] = inv[row]
            else:
                after[last[here]] = place
                doubt[k] = doubt[k] or strict != 0
            last[here] = place
    _against_tokens(begin, over, opened, begun, waiting, doubt)
    for row in refused:
        here = group[row]
        raised = min(over[here], opened[here]) if strict else over[here]
        if ret[row] < raised:
            doubt[key[row]] = True
    return doubt


@kernel
def _against_tokens(begin: Column, over: Column, opened: Column, begun: Column, waiting: Column, doubt: Column) -> None:
    """Sets the first moments at which the bar can be above each group's token (`over`) and at it (`opened`)."""
    for k in range(len(begin) - 1):
        worst = -1
        for here in range(begin[k], begin[k + 1]):
            if over[here] < worst:
                doubt[k] = True
            if opened[here] < INFINITY:
                opened[here] = max(opened[here], worst)
            worst = max(worst, begun[here])
        raised = INFINITY
        for here in range(begin[k + 1] - 1, begin[k] - 1, -1):
            over[here] = raised
            raised = min(raised, opened[here])
        if waiting[k] != 0:
            doubt[k] = True
