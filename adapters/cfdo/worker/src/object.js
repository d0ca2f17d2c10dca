import { DurableObject } from "cloudflare:workers";

import { TOLERANCE } from "./exact.js";
import { Ledger } from "./ledger.js";

// How many rows a sweep looks at before others have their turn.
const CHUNK = 500;

// Limits is the object that keeps the states of a shard of keys. A row is a key's
// state and the instant at which it equals none.
export class Limits extends DurableObject {
  // grace is how long a row is kept beyond that instant, for a clock that is set
  // back by as much; pause is the least time between two sweeps. Microseconds.
  grace = TOLERANCE;
  pause = 300_000_000;

  constructor(ctx, env) {
    super(ctx, env);
    this.storage = ctx.storage;
    this.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS limits (row TEXT PRIMARY KEY, state TEXT NOT NULL, full INTEGER NOT NULL) WITHOUT ROWID",
    );
  }

  // now is the clock, in microseconds. That of Workers counts milliseconds.
  now() {
    return Date.now() * 1000;
  }

  // decide answers the calls of a batch in order, all at one instant.
  async decide({ policies, calls }) {
    // The only thing that is waited for comes before the first state is read:
    // from here to the last write, no other call can come in between.
    const alarm = await this.storage.getAlarm();
    const ledger = new Ledger((row) => this.read(row), this.now(), policies);
    const answers = calls.map((call) => ledger.answer(call));
    if (ledger.writes.size > 0) {
      this.write(ledger.writes);
      this.schedule(ledger, alarm);
    }
    return answers;
  }

  read(row) {
    for (const { state } of this.storage.sql.exec("SELECT state FROM limits WHERE row = ?", row)) {
      return JSON.parse(state);
    }
    return null;
  }

  // write writes all rows or, when one fails, none.
  write(writes) {
    const sql = this.storage.sql;
    this.storage.transactionSync(() => {
      for (const [row, kept] of writes) {
        if (kept === null) {
          sql.exec("DELETE FROM limits WHERE row = ?", row);
        } else {
          sql.exec("INSERT OR REPLACE INTO limits VALUES (?, ?, ?)", row, JSON.stringify(kept.state), kept.full);
        }
      }
    });
  }

  // schedule has the rows that were written swept once they equal none. The alarm that is set already is asked for, not remembered: an object is
  // evicted when it is idle, and its memory with it. Setting one costs a row
  // written, so one that comes a little late is left as it is.
  schedule({ writes, now }, alarm) {
    let full = Infinity;
    for (const kept of writes.values()) {
      full = Math.min(full, kept?.full ?? Infinity);
    }
    if (full === Infinity) {
      return; // resets only
    }
    const at = this.instant(full + this.grace - now);
    if (alarm === null || alarm > at + this.pause / 1000) {
      this.storage.setAlarm(at);
    }
  }

  // instant is when an alarm has to ring for something that is due after so many
  // microseconds. Alarms go by the time of the machine.
  instant(after) {
    return Date.now() + Math.max(0, Math.ceil(after / 1000));
  }

  // alarm deletes the rows that equal none, a chunk at a time, and has itself
  // called again when others will. An object without rows is left in peace.
  async alarm() {
    const sql = this.storage.sql;
    let after = "";
    let earliest = Infinity;
    for (;;) {
      const due = this.now() - this.grace;
      const rows = sql.exec("SELECT row, full FROM limits WHERE row > ? ORDER BY row LIMIT ?", after, CHUNK).toArray();
      if (rows.length === 0) {
        break;
      }
      const last = rows[rows.length - 1].row;
      sql.exec("DELETE FROM limits WHERE row > ? AND row <= ? AND full <= ?", after, last, due);
      for (const { full } of rows) {
        if (full > due) {
          earliest = Math.min(earliest, full);
        }
      }
      after = last;
      await scheduler.wait(0);
    }
    if (earliest === Infinity) {
      return;
    }
    const at = this.instant(Math.max(this.pause, earliest + this.grace - this.now()));
    const alarm = await this.storage.getAlarm(); // set by a call in the meantime
    if (alarm === null || alarm > at) {
      await this.storage.setAlarm(at);
    }
  }
}
