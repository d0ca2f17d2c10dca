export { connect } from "./client.js";
export { WskitError, UnknownOutcome, type Failure } from "./errors.js";
export type {
  Call,
  Client,
  ContractShape,
  Loss,
  Member,
  Meta,
  Observable,
  Options,
  Presence,
  ProtocolEvents,
  QuestionContext,
  RequestOptions,
  SendOptions,
  State,
  TokenRequest,
  Untyped,
} from "./contract.js";
