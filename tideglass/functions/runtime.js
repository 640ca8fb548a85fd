// What runs in the sandbox beside the scripts of a job: values in, calls, values out.
//
// Work is a generator, so that it can stop between two calls: `at` says which call comes next, and after
// `slice` milliseconds whoever asked is told of it. No call is cut short by that.
var tideglass = (function () {
  const now = Date.now, parse = JSON.parse, write = JSON.stringify;
  const self = {functions: {}, at: null, slice: 0};
  let work = null, until = 0;

  // Deeper values cannot be read back: the parsers of the engine stop there.
  const DEEPEST = 500;

  function deep(text) {
    // Of the text, not of the value: a value may be in itself, and no recursion goes deep enough.
    let depth = 0, quoted = false;
    for (let i = 0; i < text.length; i++)
      switch (text.charCodeAt(i)) {
        case 34: quoted = !quoted; break;
        case 92: i++; break;
        case 91: case 123: if (!quoted && ++depth > DEEPEST) return true; break;
        case 93: case 125: if (!quoted) depth--;
      }
    return false;
  }

  // A lone half of a surrogate pair is no character and has no UTF-8: it becomes U+FFFD.
  function written(value) {
    const text = write(value);
    if (text === undefined) throw new Error('the result cannot be written as JSON');
    if (text.length > 2 * DEEPEST && deep(text))
      throw new Error('the result is nested more than ' + DEEPEST + ' deep');
    return text.includes('\\ud')
      ? text.replace(/\\(?:u(d[89a-f][0-9a-f]{2})|.)/g, (whole, half) => half ? '\ufffd' : whole)
      : text;
  }

  function encode(v) {
    if (v === null || v === undefined) return null;
    switch (typeof v) {
      case 'string': return 's' + v.toWellFormed();
      case 'boolean': return 'b' + (v ? 1 : 0);
      case 'number':
        if (!Number.isFinite(v)) throw new Error('the result ' + v + ' is no finite number');
        if (Number.isInteger(v) && v >= -9223372036854775808 && v < 9223372036854775808)
          return 'i' + BigInt(v).toString();
        return 'f' + v;
      case 'object':
        if (v instanceof Date) {
          if (isNaN(v)) throw new Error('the result is no valid date');
          return 'd' + v.getTime();
        }
        return (Array.isArray(v) ? 'a' : 'r') + written(v);
    }
    throw new Error('a ' + typeof v + ' is no value of the query language');
  }

  function decode(text) {
    if (text === null) return null;
    const rest = text.slice(1);
    switch (text[0]) {
      case 's': return rest;
      case 'b': return rest === '1';
      case 'd': {
        const ticks = BigInt(rest), ms = ticks / 10000n;
        return new Date(Number(ticks % 10000n < 0n ? ms - 1n : ms));
      }
      case 'i': case 'f': return Number.isFinite(Number(rest)) ? Number(rest) : null;
    }
    return parse(rest);
  }

  // What was thrown as text, even if it cannot say so itself.
  function said(e) {
    try { return String(e).toWellFormed().slice(0, 1000); } catch (_) { return 'an error without a text'; }
  }

  self.rows = function* (name, dates, text) {
    const f = self.functions[name], rows = parse(text), out = [];
    for (const [place, row] of rows.entries()) {
      self.at = place;
      if (now() >= until) yield;
      for (const i of dates) if (row[i] !== null) row[i] = new Date(row[i]);
      try { out.push(encode(f.apply(null, row))); }
      catch (e) { return write({error: said(e), row: place}); }
    }
    return write(out);
  };

  self.groups = function* (name, text) {
    const main = self.functions[name], groups = parse(text), out = [];
    for (const [group, events] of groups.entries()) {
      let method = 'init', event = null;
      try {
        self.at = {group, event, method};
        if (now() >= until) yield;
        const made = new main();
        made.init();
        method = 'accumulate';
        for (const [place, [value, timestamp]] of events.entries()) {
          event = place;
          self.at = {group, event, method};
          if (now() >= until) yield;
          made.accumulate(decode(value), decode(timestamp));
        }
        method = 'computeResult';
        self.at = {group, event, method};
        if (now() >= until) yield;
        out.push(encode(made.computeResult()));
      } catch (e) { return write({error: said(e), group, event, method}); }
    }
    return write(out);
  };

  self.matches = function* (text) {
    const cache = new Map(), out = [];
    for (const [place, [s, p]] of parse(text).entries()) {
      self.at = place;
      if (now() >= until) yield;
      if (!cache.has(p)) { try { cache.set(p, new RegExp(p, 'is')); } catch (e) { cache.set(p, null); } }
      const r = cache.get(p), at = r === null ? -1 : s.search(r);
      out.push(at < 0 ? 0 : [...s.slice(0, at)].length + 1);
    }
    return write(out);
  };

  self.aggregator = function (main) {
    const made = new main();
    for (const method of ['init', 'accumulate', 'computeResult'])
      if (typeof made[method] !== 'function') throw new Error('main has no method ' + method);
    return main;
  };

  self.more = function () {
    until = now() + self.slice;
    const {value, done} = work.next();
    return done ? value : null;
  };

  self.start = function (made) {
    work = made;
    return self.more();
  };

  return self;
})();

// What a function gives follows from its arguments: there is no clock, and nothing is left to chance.
(function () {
  const OwnDate = Date, construct = Reflect.construct, formats = Intl.DateTimeFormat.prototype;

  function refuse(what) {
    throw new Error(what + ' is another at every run; pass a time of the query, such as System.Timestamp()');
  }

  Object.defineProperty(globalThis, 'Date', {value: new Proxy(OwnDate, {
    construct(target, values, made) {
      if (values.length === 0) refuse('new Date()');
      return construct(target, values, made);
    },
    apply() { refuse('Date()'); },
  })});
  Object.defineProperty(OwnDate, 'now', {value() { refuse('Date.now()'); }});
  Object.defineProperty(OwnDate.prototype, 'constructor', {value: Date});
  Object.defineProperty(Math, 'random', {value() { refuse('Math.random()'); }});

  // Without a date these format the moment.
  const format = Object.getOwnPropertyDescriptor(formats, 'format').get, parts = formats.formatToParts;
  Object.defineProperty(formats, 'format', {get() {
    const made = format.call(this);
    return date => date === undefined ? refuse('format()') : made(date);
  }});
  Object.defineProperty(formats, 'formatToParts', {value(date) {
    return date === undefined ? refuse('formatToParts()') : parts.call(this, date);
  }});
  for (const name of ['Temporal', 'performance'])
    if (name in globalThis) Object.defineProperty(globalThis, name, {value: undefined});
})();
