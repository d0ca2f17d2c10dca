import type { Client, ContractShape, Options, Untyped } from "./wskit.js";
/** The schema.json of package contract. */
export interface Schema {
    $defs: {
        [name: string]: unknown;
    };
}
/**
 * For development: connect of "@wskit/client", which throws where options are missing or are none. With the schema of the
 * server, which may come later, it warns once for each type that is asked for and that the server does not have.
 */
export declare function connect<C extends ContractShape = Untyped>(options: Options, schema?: Schema | Promise<Schema>): Client<C>;
