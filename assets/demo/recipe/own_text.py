"""Generated training text, own work under CC0-1.0: small stories, and chats from the questions in everyday.txt."""
import os
import random

ANIMALS = (
    "fox rabbit bear mouse cat dog owl frog turtle duck hedgehog squirrel lion elephant monkey pig goat sheep "
    "horse hen wolf penguin bee crab whale dragon deer kitten puppy bird"
).split()
FLYERS = {"bird", "owl", "bee", "duck", "dragon", "hen"}
KIDS = ["girl", "boy"]
NAMES = (
    "Pip Ruby Milo Luna Tom Daisy Oscar Nora Sam Poppy Leo Mia Finn Ella Toby Rosie Max Lily Ben Hazel Otto Ivy Hugo "
    "Molly Jack Nell"
).split()
SHE = set("Ruby Luna Daisy Nora Poppy Mia Ella Rosie Lily Hazel Ivy Molly Nell".split())
TRAITS = "small brave shy kind clever curious happy quiet gentle cheerful".split()
PLACES = [
    "in a green forest", "near a quiet river", "on a small farm", "by the sea", "at the foot of a tall mountain",
    "in a little house in the woods", "near a blue lake", "in a sunny garden",
]
FOODS = "apples berries nuts honey carrots pears bread cake soup cheese".split()
THINGS = [
    "a red ball", "a golden key", "a blue kite", "a little boat", "a silver bell", "a warm hat", "a shiny stone",
    "a small lamp", "an old map", "a yellow scarf",
]


def an(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


def character(r, kind=None, trait=None):
    kind = kind or r.choice(ANIMALS + KIDS)
    name = r.choice([n for n in NAMES if kind not in KIDS or (n in SHE) == (kind == "girl")])
    he, his, him = ("she", "her", "her") if name in SHE else ("he", "his", "him")
    return dict(kind=kind, name=name, he=he, his=his, him=him, trait=trait or r.choice(TRAITS))


def plots(a, b, food, thing):
    """Every plot as a list of sentences; a is the hero, b the friend."""
    A, he, his, him, He = a["name"], a["he"], a["his"], a["him"], a["he"].capitalize()
    B, she, her, bk = b["name"], b["he"], b["him"], an(b["kind"])
    Bk, it = bk.capitalize(), "the " + thing.split(" ", 1)[1]
    flyer = a["kind"] in FLYERS
    return [
        [f"One day, {A} found {thing} under a tree. \"Whose is this?\" {he} asked.",
         f"{He} asked {bk} called {B}. \"It is mine!\" said {B}. \"I lost it yesterday, and I was so sad.\"",
         f"{A} wanted to keep {it}, but {he} gave it back.",
         f"{B} was so happy that {she} gave {A} some {food}.",
         f"From that day on, {A} and {B} were best friends."],
        [f"One day, {A} wanted to see the world, so {he} walked and walked.",
         f"Soon it was dark, and {A} was lost. {He} sat down and began to cry.",
         f"Then {bk} called {B} came by. \"Do not cry,\" said {B}. \"I know the way.\"",
         "They walked home together under the stars.",
         f"{A} said thank you and shared {his} {food} with {B}.",
         f"\"The world is big,\" said {A}, \"but home is best.\""],
        [f"{A} had {thing}, and {he} loved it very much.",
         f"One day the wind blew hard and took {it} away. It landed high up in a tree.",
         f"{A} jumped and jumped, but {he} could not reach it.",
         f"{Bk} called {B} saw this and laughed. \"Stand on my back,\" said {B}.",
         f"So {A} climbed up and got {it} at last.",
         "\"Two friends can reach higher than one,\" they said."],
        [f"Every day {A} ate {food} alone, because {he} did not want to share.",
         f"One winter day the snow was deep, and {A} had nothing left to eat.",
         f"{Bk} called {B} knocked at the door. \"I have some {food},\" said {B}. \"We can share.\"",
         f"{A} felt sorry. \"I never shared with you,\" {he} said.",
         f"\"You can start now,\" said {B}, and they both smiled.",
         f"After that, {A} always shared {his} food."],
        [f"{A} was afraid of the dark. Every night {he} hid under the bed.",
         f"One night {he} heard a small voice outside. It was {bk} called {B}, and {she} was lost.",
         f"{A} was very afraid, but {he} took a lamp and went out.",
         f"{He} found {B} and brought {her} home.",
         f"\"You are so brave,\" said {B}.",
         f"{A} smiled. The dark did not look so bad any more."],
        [f"One morning, {A} and {bk} called {B} had a race.",
         f"{B} was very fast and ran far ahead. \"I will win,\" {she} said, and {she} lay down to eat some {food}.",
         f"{A} was slow, but {he} did not stop.",
         f"When {B} looked up, {A} was already at the end of the road.",
         f"\"You won!\" said {B}. \"I should not have stopped.\"",
         f"\"Slow and steady wins the race,\" said {A}."],
        [f"One day, {A} planted a seed in the ground.",
         f"{He} gave it water every day, but nothing came up.",
         f"\"It will never grow,\" said {bk} called {B}.",
         f"\"Wait and see,\" said {A}. {He} waited one week, and then another week.",
         "At last a small green leaf came up. In the summer it was a tall plant full of flowers.",
         f"\"Good things take time,\" said {A}, and {B} had to agree."],
        [f"It was {his} birthday, but nobody came to {his} house.",
         f"{A} looked out of the window and felt sad. \"They forgot me,\" {he} said.",
         f"Then {bk} called {B} came to the door. \"Come with me,\" said {B}.",
         f"They went to the old tree. All the friends were there with cake and {food}.",
         f"\"Happy birthday, {A}!\" they shouted.",
         f"{A} was so happy that {he} danced all night."],
        [f"One day it rained and rained, and the river came up to the door.",
         f"{A} climbed on the roof. Then {he} saw {bk} in the water. It was {B}, and {she} could not swim.",
         f"\"Hold on!\" said {A}, and {he} threw {her} a rope.",
         f"{B} held the rope, and {A} pulled with all {his} strength.",
         f"When the rain stopped, they sat in the sun and ate {food}.",
         f"\"You saved me,\" said {B}. \"I will always be your friend.\""],
        [f"{A} could not sleep. {He} looked at the moon and said, \"I want to touch it.\"",
         f"\"The moon is too far away,\" said {bk} called {B}.",
         f"But {A} climbed the highest hill. The moon was still far away.",
         f"Then {he} looked down and saw the moon in the lake.",
         f"{He} put {his} {'hand' if a['kind'] in KIDS else 'nose'} in the water and touched the light.",
         f"\"Now I can sleep,\" said {A}, and {he} went home."],
        [f"One day, {A} told a lie. \"There is a {'fire' if a['kind'] == 'wolf' else 'wolf'} in the garden!\" {he} shouted.",
         f"Everyone came running, but there was nothing there. {A} laughed.",
         f"The next day, {A} fell into a deep hole and called for help.",
         "\"It is only a joke,\" they all said, and nobody came.",
         f"Only {bk} called {B} came to look, and {she} pulled {him} out.",
         f"{A} said sorry, and {he} never told a lie again."],
        [f"{A} had a big dream. {He} wanted to {'sing like the wind' if flyer else 'fly like the clouds'}.",
         "\"You are too small,\" said everyone.",
         f"But {bk} called {B} said, \"I will help you.\"",
         "They worked together all summer, and they sang every day." if flyer
         else "They worked together all summer and made a big swing in the old tree.",
         f"One evening {A} sang a song, and everyone stopped to listen." if flyer
         else f"{A} went up and up, and {he} laughed with joy.",
         f"\"A friend makes every dream possible,\" said {A}."],
    ]


def story(r, kind=None, trait=None):
    """The hero, where the hero lives, and the text."""
    a, b = character(r, kind, trait), character(r)
    while b["name"] == a["name"] or b["kind"] == a["kind"]:
        b = character(r)
    place = r.choice(PLACES)
    start = r.choice(["Once upon a time, there was %s called %s.", "There was once %s named %s.", "Once there was %s called %s."])
    start %= an(a["trait"] + " " + a["kind"]), a["name"]
    plot = r.choice(plots(a, b, r.choice(FOODS), r.choice(THINGS)))
    text = f"{start} {a['he'].capitalize()} lived {place}. " + " ".join(plot[:2]) + "\n\n" + " ".join(plot[2:])
    if r.random() < 0.3:
        text += r.choice([" The end.", " And they lived happily ever after."])
    return a, place, text


ASK = [
    "Tell me a story.", "Tell me a story", "Can you tell me a story?", "Please tell me a story.", "tell me a story",
    "Tell me a short story.", "I want to hear a story.", "Could you tell me a bedtime story?", "Tell me a bedtime story.",
    "Do you know a story?", "Write a short story.", "Tell me a fairy tale.", "Make up a story.", "A story, please.",
    "Tell me a story for children.", "Can you write a story?", "write me a story", "I would like a story.",
]
ASK_ABOUT = [
    "Tell me a story about %s.", "Can you tell me a story about %s?", "Write a story about %s.",
    "Tell me a short story about %s.", "tell me a story about %s", "I want a story about %s.",
    "Please write a short story about %s.", "Make up a story about %s.", "Do you know a story about %s?",
]


def story_chat(r):
    """A story that was asked for, and sometimes talk about it."""
    if r.random() < 0.45:
        a, place, text = story(r)
        question = r.choice(ASK)
    else:
        kind, trait = r.choice(ANIMALS + KIDS), r.choice(TRAITS) if r.random() < 0.5 else None
        a, place, text = story(r, kind, trait)
        about = an((trait + " " if trait else "") + kind)
        if r.random() < 0.2:
            about += " called " + a["name"]
        question = r.choice(ASK_ABOUT) % about
        text = f"Here is a story about {about}.\n\n{text}"
    chat = [("user", question), ("assistant", text)]

    def say(questions, answers):
        chat.extend([("user", r.choice(questions)), ("assistant", r.choice(answers))])

    while r.random() < 0.4:
        name, kind = a["name"], a["kind"]
        turn = r.randrange(6)
        if turn == 0:
            a, place, text = story(r)
            say(["Another one, please.", "Tell me another one.", "Tell me another story.", "One more story, please.", "again",
                 "Another story!"], [text])
        elif turn == 1:
            say([f"What was the name of the {kind}?", "Who was the story about?", f"Who is {name}?"],
                [f"The {kind} in the story was called {name}.", f"The story was about {an(a['trait'] + ' ' + kind)} called {name}."])
        elif turn == 2:
            say(["I liked that.", "That was nice.", "Nice story!", "What a lovely story.", "Good story.", "I love it."],
                ["I am glad you liked it. Would you like another story?", "Thank you! I can tell you another one.",
                 "Thank you. I like stories too.", f"I am glad you liked {name} the {kind}."])
        elif turn == 3:
            say([f"Where did {name} live?", f"Where did the {kind} live?"], [f"{name} lived {place}."])
        elif turn == 4:
            say(["Thanks!", "Thank you.", "Thank you for the story.", "thanks"],
                ["You're welcome!", "You are welcome. I hope you liked it.", "Any time!"])
        else:
            say(["Did you make that up?", "Is that a true story?", "Is it true?"],
                ["I made it up. It is only a story.", "It is not a true story. I made it up."])
    return chat


def everyday():
    """(questions, answers) pairs from everyday.txt."""
    pairs = []
    for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "everyday.txt"), encoding="utf8"):
        if line.strip() and not line.startswith("#"):
            q, a = line.rstrip("\n").split(" => ")
            pairs.append((q.split(" | "), [x.replace("\\n", "\n") for x in a.split(" | ")]))
    return pairs


def everyday_chat(r, pairs):
    """One to eight everyday questions in a row, with a little arithmetic and remembering of names."""
    chat, n = [], 1
    while r.random() < 0.6 and n < 8:
        n += 1
    for _ in range(n):
        if r.random() < 0.07:
            a, b = r.randint(0, 20), r.randint(0, 20)
            if r.random() < 0.6:
                question, answer = r.choice([f"What is {a} + {b}?", f"What is {a} plus {b}?", f"{a}+{b}"]), f"{a} + {b} = {a + b}."
            else:
                a, b = max(a, b), min(a, b)
                question, answer = r.choice([f"What is {a} - {b}?", f"What is {a} minus {b}?"]), f"{a} - {b} = {a - b}."
            chat += [("user", question), ("assistant", answer)]
        elif r.random() < 0.06:
            name = r.choice(NAMES)
            chat += [("user", r.choice(["My name is %s.", "I am %s.", "Hi, I am %s.", "my name is %s"]) % name),
                     ("assistant", f"Nice to meet you, {name}! What would you like to talk about?")]
            if r.random() < 0.5:
                chat += [("user", r.choice(["What is my name?", "Do you remember my name?"])), ("assistant", f"Your name is {name}.")]
        else:
            questions, answers = r.choice(pairs)
            chat += [("user", r.choice(questions)), ("assistant", r.choice(answers))]
    return chat


MORE_NAMES = (
    "Anna Peter John Mary Lucy Emma Paul Mark Laura Sara David Kate Jane Alex Maria Chris Julia Simon Helen Robert Alice George "
    "Henry Clara Frank Nina Victor Rose Walter Grace Kim Jan Eva Adam Omar Lena Ravi Yuki Carlos Sofia Diego Amina Chen Ivan"
).split()
COUNTED = (
    "apple bag ball banana basket bed bell bike boat book bottle bowl box bridge brother bus button cake camera car castle chair "
    "child clock cloud coat computer cousin cup desk doctor door dress drum egg farm father flag flower forest friend game garden "
    "gate gift glass grandmother guitar hammer hat hill house island jacket job key kitchen kite knife ladder lake lamp letter "
    "library map market mirror mother mountain neighbour nurse office orange oven painting park pen pencil phone photo piano "
    "picture plane plant plate poem pocket puzzle queen question radio ring river road robot roof room rope school ship shirt shoe "
    "shop sister song spoon stone street table teacher tent test ticket tower town toy train tree umbrella uncle village violin "
    "wall watch wheel window"
).split()
ACTIVITIES = (
    "music football chess tea coffee chocolate history winter summer autumn spring rain snow dancing singing cooking reading "
    "writing swimming running walking fishing gardening painting drawing baking hiking camping cycling skiing tennis basketball "
    "science art poetry pizza rice soup bread cheese honey ice-cream animals trees stars books films games flowers trains "
    "mountains rivers birds cats dogs horses foxes bears rabbits"
).split()
COLOURS = "red blue green yellow white black brown pink grey orange".split()


def echo_chat(r):
    """Talk in which the answer takes up a word of the question."""
    chat, n = [], r.randint(2, 7)
    for _ in range(n):
        name, noun, thing = r.choice(NAMES + MORE_NAMES), r.choice(COUNTED + ANIMALS), r.choice(ACTIVITIES)
        colour, other = r.choice(COLOURS), r.choice(ACTIVITIES)
        question, answer = r.choice([
            (f"I like {thing}.", f"I can see why you like {thing}. What do you like best about {thing}?"),
            (f"I love {thing}!", f"It is nice that you love {thing}."),
            (f"I don't like {thing}.", f"That is fine. Not everyone likes {thing}."),
            (f"Do you like {thing}?", f"I like to talk about {thing}. Do you like {thing}?"),
            (f"Let's talk about {thing}.", f"Yes, let us talk about {thing}. What would you like to say about {thing}?"),
            (f"Do you prefer {thing} or {other}?", r.choice([f"I think I prefer {thing}.", f"I think I prefer {other}."])),
            (f"Tell me about {thing}.", f"I know only a little about {thing}. What do you know about {thing}?"),
            (f"I have {an(noun)}.", f"How nice that you have {an(noun)}! What is your {noun} like?"),
            (f"I have {an(colour + ' ' + noun)}.", f"{an(colour + ' ' + noun).capitalize()} sounds lovely."),
            (f"I bought {an(noun)} today.", f"I hope you like your new {noun}."),
            (f"I want {an(noun)}.", f"What would you do with {an(noun)}?"),
            (f"I lost my {noun}.", f"I am sorry that you lost your {noun}. Where did you last see it?"),
            (f"Do you have {an(noun)}?", f"No, I am a program, so I do not have {an(noun)}."),
            (f"What colour is my {noun}? It is {colour}.", f"Your {noun} is {colour}."),
            (f"My name is {name}.", f"Nice to meet you, {name}! What would you like to talk about?"),
            (f"I am {name}", f"Hello, {name}! It is nice to meet you."),
            (f"My {noun} is called {name}.", f"{name} is a good name for {an(noun)}."),
            (f"My friend {name} is here.", f"Please say hello to {name} for me."),
            (f"Say {noun}.", f"{noun.capitalize()}."),
            (f"Say hello to {name}.", f"Hello, {name}!"),
            (f"Repeat after me: the {colour} {noun}.", f"The {colour} {noun}."),
        ])
        chat += [("user", question), ("assistant", answer)]
        if question.startswith("My name") and r.random() < 0.4:
            chat += [("user", r.choice(["What is my name?", "Who am I?", "Do you know my name?"])), ("assistant", f"Your name is {name}.")]
    return chat


def make(seed=3, stories=5000, chats=5000, echoes=6000):
    r, pairs = random.Random(seed), everyday()
    return {
        "own_story": [story_chat(r) for _ in range(stories)],
        "own_chat": [everyday_chat(r, pairs) for _ in range(chats)],
        "own_echo": [echo_chat(r) for _ in range(echoes)],
    }


if __name__ == "__main__":
    for chat in sum(make(stories=4, chats=4, echoes=4).values(), []):
        print("\n".join(f"{role}: {text}" for role, text in chat), end="\n\n")
