"""Verbs that open a docstring in the imperative, and their third-person forms."""

from __future__ import annotations

# Base forms seen at the start of docstrings. Words that mostly open a noun phrase there ("hook for", "file with",
# "value of", "name under", "version of", "time at") are left out on purpose.
VERBS = frozenset(
    """
    abort accept access acknowledge acquire activate adapt add adjust advance aggregate align allocate allow
    alter analyse analyze announce append apply approximate arrange ask assemble assert assign associate assume
    attach attempt authenticate authorize avoid await backup balance base become begin bind blend block
    bootstrap break bring broadcast build bump bypass byte-compile cache calculate call cancel capitalize
    capture cast catch center chain change check choose clamp classify clean cleanup clear clip clone close
    coerce collapse collect combine commit compare compile complete compose compress compute concatenate
    configure confirm conjugate connect construct consume continue control convert copy correct count create
    customize cut debug decide declare decode decompress decorate decrease decrement decrypt dedent deduce defer
    define delay delegate delete delimit deliver deprecate dequeue derive descend describe deserialize destroy
    detach detect determine dictate differentiate disable disassemble discard disconnect discover dismiss
    dispatch display dispose distribute divide do double download drain draw drop dump duplicate edit eliminate
    emit emulate enable encode encrypt enforce enqueue ensure enter enumerate erase escalate escape establish
    estimate evaluate examine exchange exclude execute exit expand expect explain explore export expose express
    extend extract fail fall feed fetch figure fill filter finalize find finish fit fix flag flash flatten flip
    flush fold follow forbid force forget fork format forward free freeze gather generate get give go grab grant
    group grow guarantee guess handle hash help hide highlight hold honor honour identify ignore imitate
    implement import include increase increment indent indicate infer inform inherit inhibit initialise
    initialize initiate inject inline inquire insert inspect install instantiate instruct interact interleave
    interpret interrupt introduce invalidate invert invoke isolate issue iterate join jump keep kill know label
    launch lay leave let limit link list listen load locate lock log login look lookup loop lower maintain make
    manage manipulate map mark mask match maximize measure merge mimic minimize mirror mix modify monitor mount
    move multiply mutate negate normalise normalize note notify obey obtain offer omit open operate optimize
    order organize output overload override overwrite pack pad paint parse partition pass paste patch pause peek
    perform permit pick pickle pin place play plot point poll pop populate position post postpone prefix prepare
    prepend present preserve press pretend pretty-print prevent print proceed process produce promote prompt
    protect prove provide prune publish pull purge push put query queue quit quote raise randomize re-raise
    reach read realign rearrange rebuild recalculate receive recognize recompute reconfigure reconstruct record
    recover redirect redo redraw reduce refactor refer refine reflect reformat refresh refuse register reject
    relate release reload remember remove rename render reopen reorder repaint repeat replace report reposition
    represent reproduce request require reraise rescale reschedule reserve reset reshape resize resolve respond
    restart restore restrict resume retain retrieve retry return reuse reveal reverse revert review revoke
    rewind rewrite roll rotate round route run sanitize save scale scan schedule scroll seal search see seed
    seek select send separate serialize serve set setup shift show shrink shuffle shut shutdown signal simplify
    simulate skip sleep slice sort spawn specify split square squeeze stack start stash steal step stop store
    stream strip submit subscribe substitute subtract suggest sum summarize supply support suppress suspend swap
    switch synchronize take tear tell terminate test throw toggle tokenize trace track transfer transform
    translate transmit transpose traverse treat trigger trim truncate try tune turn unbind undo unescape unfold
    uninstall unlink unload unlock unmap unpack unpickle unquote unregister unset unsubscribe unwrap update
    upgrade upload use validate verify view visit wait wake walk warn watch widen withdraw work wrap write yield
    zip
    """.split()
)

_IRREGULAR = {"do": "does", "go": "goes", "have": "has", "be": "is"}


def third_person(verb: str) -> str:
    """The form that follows "it": ``return`` -> ``returns``, ``try`` -> ``tries``, ``pass`` -> ``passes``.

    Args:
        verb: a base form in lower case.

    Returns:
        The third-person form in lower case.
    """
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb + "s"


BASE_FORM = {third_person(verb): verb for verb in VERBS}
"""Third-person form -> base form, for every verb of the list."""
