"""English words that say nothing of a page's subject: function words, and what apostrophes leave of contractions."""

from __future__ import annotations

_WORDS = """
    a an the this that these those such same other others another each every either neither both all any some none no
    one ones many much more most few fewer less least several enough own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves who whom whose which what whoever whatever whichever
    someone somebody something anyone anybody anything everyone everybody everything nobody nothing
    am is are was were be been being do does did doing done have has had having can could may might must shall should
    will would ought cannot
    don doesn didn isn aren wasn weren hasn haven hadn couldn shouldn wouldn won ain ll ve re
    and or but nor so yet if then else because since while although though unless until whether than as
    of in on at by for from to into onto upon with within without about above below over under between among through
    during before after against across along around behind beside besides beyond despite down up off out near per
    toward towards via like except
    not never always often sometimes usually ever also too very just only even still already again once here there
    where when why how now later soon thus hence therefore however moreover otherwise rather quite perhaps maybe
    almost instead anyway yes
    get gets got getting let lets make makes made go goes going gone come comes came take takes took put puts
    say says said see sees seen use uses used using
    etc eg ie vs
"""

ENGLISH = frozenset(_WORDS.split())
