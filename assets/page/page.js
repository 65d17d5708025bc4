'use strict';
// Shows the conversation of the data block. All of it is inserted as text: nothing here reads HTML.

const find = (id) => document.getElementById(id);
const data = JSON.parse(find('data').textContent);

/** An element with properties and children; strings become text. */
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const percent = (share) =>
  share === null ? '–' : share < 0.005 ? '<1%' : `${Math.round(share * 100)}%`;
const time = (ms) =>
  ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
const many = (count, one, more) => `${count} ${count === 1 ? one : more}`;

// Every round and every word of the page, in order.
const rounds = [];
const words = [];
// The round shown, the word looked at, and the timer of the replay while it plays.
let at = -1;
let word = null;
let playing = null;

// The conversation.

const SPEAKERS = { system: 'System', user: 'You', assistant: 'Model' };

function showMessage(message) {
  const first = words.length;
  const text = make('div', { className: 'text', dir: 'auto' });
  for (const said of message.words) {
    if (said.origin) words.push({ ...said, element: wordElement(said, words.length), round: null });
    text.append(said.origin ? words.at(-1).element : said.text);
  }
  const by = SPEAKERS[message.role] + (message.target ? ` · ${message.target}` : '');
  const article = make('article', { className: message.role }, make('h2', { textContent: by }));
  if (message.thought !== null) {
    const thought = make('div', { className: 'text', dir: 'auto', textContent: message.thought });
    article.append(make('details', {}, make('summary', { textContent: 'Thoughts' }), thought));
  }
  article.append(text);
  if (message.role === 'assistant' && message.rounds.length === 0) {
    const kept = words.length > first ? 'its words and both minds' : 'only its text';
    const note = `No draft trees: a chat keeps those of its latest answer. Of this one it keeps ${kept}.`;
    article.append(make('p', { className: 'quiet', textContent: note }));
  }
  // A text before the first known token is a part, but not a word.
  const before = message.words.length > 0 && !message.words[0].origin ? 1 : 0;
  for (const round of message.rounds) {
    const from = Math.max(first, first + round.first - before);
    const own = words.slice(from, first + round.end - before);
    // The first word comes from the prefill: it is the root of the first tree.
    const root = round === message.rounds[0] ? words.slice(first, from).slice(-1) : [];
    for (const one of [...root, ...own]) one.round = rounds.length;
    rounds.push({ ...round, words: own, article });
  }
  find('talk').append(article);
}

function wordElement(said, number) {
  const look = () => lookAt(number);
  const properties = { className: `word ${said.origin}`, textContent: said.text, onclick: look, onfocus: look };
  const element = make('span', { ...properties, tabIndex: number === 0 ? 0 : -1 });
  element.setAttribute('role', 'button');
  element.style.setProperty('--heat', Math.min((said.bits ?? 0) / 8, 1));
  return element;
}

// Both minds at a word.

function lookAt(number) {
  stop();
  // One word at a time can be reached with Tab, or a page would have hundreds of stops.
  const former = words[word ?? 0].element;
  former.tabIndex = -1;
  former.removeAttribute('aria-current');
  word = number;
  const { element, round } = words[number];
  element.tabIndex = 0;
  element.setAttribute('aria-current', 'true');
  if (round !== null && round !== at) show(round, false);
  element.scrollIntoView({ block: 'nearest' });
  showMinds(words[number]);
  const [panel, minds] = [find('rounds'), find('minds')];
  const end = minds.offsetTop + minds.offsetHeight - panel.clientHeight;
  panel.scrollTop = Math.max(panel.scrollTop, Math.min(end, minds.offsetTop));
}

function showMinds({ rows, origin, bits }) {
  const body = rows.map((row) => {
    const kind = row.taken ? `taken ${origin}` : row.draft !== null ? 'rejected' : '';
    const why = row.cut ? ` cut by ${row.cut.replace('_', '-')}` : row.penalised ? ' penalised' : '';
    const label = make('bdi', { className: 'label', textContent: row.label });
    const name = make('th', { scope: 'row' }, label, make('span', { className: 'quiet', textContent: why }));
    return make('tr', { className: kind }, name, meter(row.target, 'target'), meter(row.draft, 'draft'));
  });
  const label = rows.find((row) => row.taken).label;
  const surprise = bits === null ? '' : ` · ${bits.toFixed(1)} bits of surprise`;
  const caption = make('caption', {}, 'Both minds at ', make('bdi', { className: 'label', textContent: label }), surprise);
  const heads = ['token', 'target', 'draft'].map((name) => make('th', { scope: 'col', textContent: name }));
  const head = make('thead', {}, make('tr', {}, ...heads));
  find('minds').replaceChildren(make('table', {}, caption, head, make('tbody', {}, ...body)));
}

function meter(share, kind) {
  const bar = make('i', { className: `bar ${kind}` });
  bar.style.width = `${(share ?? 0) * 100}%`;
  return make('td', { className: 'share' }, bar, make('span', { textContent: percent(share) }));
}

// A round: its figures, its times and its tree.

function showRound(round) {
  const guesses = round.nodes.length - 1;
  const accepted = round.nodes.filter((node) => node.accepted).length;
  const said = round.nothing?.replace('.', '') ?? `${accepted} of ${many(guesses, 'guess', 'guesses')} accepted`;
  const blocks = round.blocks > 0 ? `M ${round.blocks}` : '';
  const ahead = round.ahead ? 'drafted ahead' : '';
  const written = many(round.words.length, 'token', 'tokens');
  const figures = [written, round.strategy, `γ ${round.gamma}`, blocks, ahead].filter(Boolean);
  const head = make('p', {}, make('strong', { textContent: said }), ` · ${figures.join(' · ')}`);
  const bar = make('div', { className: 'times', ariaHidden: 'true' });
  const times = make('dl', {});
  for (const [name, ms] of Object.entries(round.times)) {
    const part = make('i', { className: name });
    part.style.flexGrow = ms;
    bar.append(part);
    const [term, spent] = [make('dt', { textContent: name }), make('dd', { textContent: time(ms) })];
    times.append(make('div', { className: name }, term, spent));
  }
  const tree = make('ul', {}, treeNode(round, 0));
  const shown = make('div', { className: 'tree', tabIndex: 0, role: 'group', ariaLabel: 'Draft tree' }, tree);
  find('round').replaceChildren(head, bar, times, shown);
}

/** A node with what is below it. The accepted path is the first at every fork. */
function treeNode(round, index) {
  const { nodes, bonus } = round;
  const node = nodes[index];
  const children = [...nodes.keys()].filter((child) => child > 0 && nodes[child].parent === index);
  children.sort((a, b) => nodes[b].accepted - nodes[a].accepted || nodes[b].share - nodes[a].share);
  const below = children.map((child) => treeNode(round, child));
  const isEnd = (index === 0 || node.accepted) && !children.some((child) => nodes[child].accepted);
  if (isEnd && bonus) below.unshift(leaf(bonus.origin, bonus.label, '', ''));
  // An accepted token ended the answer: nothing after it was judged.
  if (isEnd && !bonus) below.length = 0;
  const kind = index === 0 ? 'root' : node.accepted ? 'accepted' : 'rejected';
  const item = leaf(kind, node.label, index === 0 ? '' : percent(node.share), node.sources);
  if (below.length > 0) item.append(make('ul', {}, ...below));
  return item;
}

const GLYPHS = { root: '○', accepted: '●', target: '◆', forced: '▶', rejected: '×' };

/** A node alone: its mark says what became of it. */
function leaf(kind, label, figure, sources) {
  const glyph = make('span', { role: 'img', ariaLabel: kind, textContent: GLYPHS[kind] });
  const name = make('bdi', { className: 'label', textContent: label });
  const share = make('small', { textContent: figure });
  const title = sources && `drafted by ${sources}`;
  return make('li', { className: kind }, make('span', { className: 'node', title }, glyph, name, share));
}

// The replay.

/** Shows round `to`; where it is `replayed`, what was written later is faint. */
function show(to, replayed = true) {
  if (rounds.length === 0) return;
  at = Math.min(Math.max(to, 0), rounds.length - 1);
  const here = rounds[at];
  const articles = [...document.querySelectorAll('article')];
  const place = articles.indexOf(here.article);
  articles.forEach((article, turn) => article.classList.toggle('later', replayed && turn > place));
  for (const said of words) {
    said.element.classList.toggle('later', replayed && said.round !== null && said.round > at);
    said.element.classList.toggle('now', here.words.includes(said));
  }
  [...find('strip').children].forEach((bar, round) => bar.classList.toggle('now', round === at));
  find('seek').value = at + 1;
  find('place').textContent = `Round ${at + 1} of ${rounds.length}`;
  showRound(here);
  if (replayed) here.words.at(-1)?.element.scrollIntoView({ block: 'nearest' });
}

function go(to) {
  stop();
  show(to);
}

function stop() {
  clearTimeout(playing);
  playing = null;
  find('play').textContent = 'Play';
}

function play() {
  if (playing !== null || rounds.length === 0) return stop();
  show(at < rounds.length - 1 ? at : 0);
  find('play').textContent = 'Pause';
  const step = () => {
    if (at === rounds.length - 1) return stop();
    show(at + 1);
    playing = wait();
  };
  // At the speed at which it was decoded, as far as an eye can follow.
  const wait = () => {
    const spent = Object.values(rounds[at].times).reduce((sum, ms) => sum + ms);
    return setTimeout(step, Math.min(Math.max(spent, 150), 1500));
  };
  playing = wait();
}

/** Goes to the next word with a text (1), or the one before (-1). */
function look(by) {
  let next = (word ?? (by > 0 ? -1 : words.length)) + by;
  while (words[next]?.text === '') next += by;
  words[next]?.element.focus();
}

function heat() {
  find('heating').ariaPressed = document.body.classList.toggle('heat');
}

const KEYS = {
  ArrowLeft: () => go(at - 1),
  ArrowRight: () => go(at + 1),
  Home: () => go(0),
  End: () => go(rounds.length - 1),
  ' ': play,
  h: heat,
};
// Keys that these use themselves.
const OWN = { INPUT: ['ArrowLeft', 'ArrowRight', 'Home', 'End'], BUTTON: [' '], SUMMARY: [' '] };

document.addEventListener('keydown', (event) => {
  const { key, target, shiftKey, ctrlKey, altKey, metaKey } = event;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const action = shiftKey && by ? () => look(by) : KEYS[key];
  if (!action || ctrlKey || altKey || metaKey || OWN[target.tagName]?.includes(key)) return;
  event.preventDefault();
  action();
});

/** `#round=3`, `#word=12` and `#heat` show that at once. */
function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.has('heat') !== document.body.classList.contains('heat')) heat();
  if (asked.has('round')) go(asked.get('round') - 1);
  if (words[asked.get('word') - 1]) lookAt(asked.get('word') - 1);
}

document.title = find('title').textContent = data.title;
find('about').textContent = data.about;
data.messages.forEach(showMessage);
const longest = Math.max(...rounds.map((round) => round.words.length), 1);
rounds.forEach((round, number) => {
  const bar = make('i', { onclick: () => go(number) });
  bar.style.height = `${(round.words.length / longest) * 100}%`;
  find('strip').append(bar);
});
Object.assign(find('seek'), { max: rounds.length, oninput: () => go(find('seek').value - 1) });
const buttons = { first: 'Home', back: 'ArrowLeft', play: ' ', next: 'ArrowRight', last: 'End', heating: 'h' };
for (const [name, key] of Object.entries(buttons)) find(name).onclick = KEYS[key];
document.body.classList.toggle('none', rounds.length === 0);
show(rounds.length - 1, false);
addEventListener('hashchange', followAddress);
followAddress();
