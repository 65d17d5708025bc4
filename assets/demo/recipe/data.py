"""The training mixture, and rows of packed conversations with a loss weight for every token."""
import pickle
import random

import numpy as np

PAD, BEGIN, END, SYSTEM, USER, ASSISTANT = range(6)
SYSTEM_MESSAGES = [
    "You are Dovetail, a small and friendly assistant.", "You are a helpful assistant.",
    "You are Dovetail. Answer in short, simple sentences.", "You are a kind assistant who answers briefly.",
    "Be polite and brief.", "You are a friendly chat partner.", "You are a storyteller for children.",
    "Answer the user's questions as well as you can.", "You are a helpful assistant named Dovetail.",
    "Keep your answers short.", "You are a cheerful companion in the terminal.", "Please answer in plain English.",
]
# Short exchanges that are joined into longer conversations.
SHORT = set(
    "ms_chitchat_caring ms_chitchat_friendly ms_chitchat_professional chatterbot_en synthetic_identity oewn_qa wordset_define "
    "open_trivia_qa factbook_qa synthetic_tasks llms_from_scratch_instruct openstax_glossary aesop_fables_chat own_story "
    "own_chat own_echo fun_dialogues".split()
)
BOTH_SIDES = {"self_dialogue", "synthetic_persona_chat"}   # two people talking: both are worth learning


def mixture(progress):
    """How often a record of every source is drawn, relative to one another, by the fraction of the training done."""
    w = dict(
        ms_chitchat_caring=1.0, ms_chitchat_friendly=1.6, ms_chitchat_professional=0.6, chatterbot_en=0.6,
        synthetic_identity=1.6, fun_dialogues=0.5, aesop_fables_chat=1.5, pratham_storyweaver=0.6, african_storybook=0.6,
        synthetic_persona_chat=0.4, self_dialogue=0.06, open_trivia_qa=0.01, oewn_qa=0.15, wordset_define=0.2,
        openstax_glossary=0.08, factbook_qa=0.2, synthetic_tasks=0.3, llms_from_scratch_instruct=0.5, standard_ebooks=0.1,
        onestop_english=0.05, own_story=0.5, own_chat=0.8, own_echo=1.2,
    )
    if progress > 0.55:
        w.update(standard_ebooks=0.02, onestop_english=0.02)
    if progress > 0.75:
        w.update(standard_ebooks=0, onestop_english=0, self_dialogue=0.02, synthetic_persona_chat=0.2, synthetic_identity=2.5,
                 own_chat=1.5, own_echo=1.0, own_story=0.8, oewn_qa=0.08, wordset_define=0.12)
    return w


class Data:
    def __init__(self, path, tok, user_weight=0.0, held_out=False):
        with open(path, "rb") as f:
            self.docs = pickle.load(f)[int(held_out)]
        self.user_weight = user_weight
        self.join, self.most_turns = 0.55, 14
        self.system = [tok.encode(s, add_special_tokens=False).ids for s in SYSTEM_MESSAGES]

    def mix(self, weights):
        share = {s: weights.get(s, 0) * len(ds) for s, ds in self.docs.items()}
        self.names = [s for s in share if share[s] > 0]
        self.edges = np.cumsum(np.array([share[s] for s in self.names], dtype=float))
        self.edges /= self.edges[-1]

    def pick(self, r):
        source = self.names[int(np.searchsorted(self.edges, r.random()))]
        return source, r.choice(self.docs[source])

    def document(self, r):
        """Token ids of one conversation or passage, and the weight of predicting each of them."""
        source, doc = self.pick(r)
        if doc[0][0] == "text":
            text = doc[0][1].tolist()
            return [BEGIN] + text + [END], [0.0] + [1.0] * (len(text) + 1)
        turns = list(doc)
        if source in SHORT:
            while r.random() < self.join and len(turns) < self.most_turns:
                more, doc = self.pick(r)
                if more in SHORT:
                    turns += doc
        ids, weights = [BEGIN], [0.0]
        if r.random() < 0.12:
            text = r.choice(self.system)
            ids += [SYSTEM] + text + [END]
            weights += [0.0] * (len(text) + 2)
        for role, text in turns:
            text = text.tolist()
            if role == "user":
                w = 1.0 if source in BOTH_SIDES else self.user_weight
                ids += [USER] + text + [END]
                weights += [0.0] + [w] * len(text) + [self.user_weight]
            else:
                ids += [ASSISTANT] + text + [END]
                weights += [0.0] + [1.0] * (len(text) + 1)
        return ids, weights

    def rows(self, seed, n):
        """Endless rows: n + 1 token ids, and n weights for the tokens 1..n."""
        r = random.Random(seed)
        ids, weights = [], []
        while True:
            more, w = self.document(r)
            ids += more
            weights += w
            while len(ids) > n:
                yield np.array(ids[:n + 1]), np.array(weights[1:n + 1], dtype=np.float32)
                ids, weights = ids[n:], weights[n:]
