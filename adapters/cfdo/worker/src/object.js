import { DurableObject } from "cloudflare:workers";

import { TOLERANCE } from "./exact.js";
import { Ledger } from "./ledger.js";

// How many rows a sweep checks before it lets other calls run.
const CHUNK = 500;

// Limits is the object that stores the states of a shard of keys. A row has a key's
// state and the instant at which it expires.
export class Limits extends DurableObject {
  // grace is how long a row is kept beyond that instant, because the clock may be set
  // back by as much. pause is the shortest time between two sweeps. Both in microseconds.
  grace = TOLERANCE;
  pause = 300_000_000;

  constructor(ctx, env) {
    super(ctx, env);
    this.storage = ctx.storage;
    this.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS limits (row TEXT PRIMARY KEY, state TEXT NOT NULL, full INTEGER NOT NULL) WITHOUT ROWID",
    );
  }

  // now is the clock, in microseconds. The clock of Workers counts milliseconds.
  now() {
    return Date.now() * 1000;
  }

  // decide answers the calls of a batch in order, all at one instant.
  async decide({ policies, calls }) {
    // The only await comes before the first state is read: from here to the last write
    // no other call can run.
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

  // write writes all rows or, if one fails, none.
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

  // schedule sets an alarm that sweeps the written rows when they have expired. alarm is
  // the one that is set already; it is read from storage, because an idle object loses
  // its memory. Setting an alarm costs a row written, so one that comes a little late is
  // left unchanged.
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

  // instant is the time of an alarm for something that is due after so many
  // microseconds. Alarms use the clock of the machine.
  instant(after) {
    return Date.now() + Math.max(0, Math.ceil(after / 1000));
  }

  // alarm deletes the expired rows, a chunk at a time, and sets the next alarm if rows
  // remain.
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
