// Prints what netron's reader finds in a kmodel file, as JSON: `node kmodel_layers.mjs NETRON_FOLDER FILE`.
// `kmodel_layers.py` calls this and tells what is printed.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(join(folder, name)));
const { BinaryStream } = await module('base.js');
const { ModelFactory } = await module('kmodel.js');

const context = {
    stream: new BinaryStream(new Uint8Array(readFileSync(file))),
    set(type, value) {
        this.value = value;
        return type;
    },
};
const factory = new ModelFactory();
if (!await factory.match(context)) {
    throw new Error('netron does not know it for a kmodel');
}
const model = await factory.open(context);
const graph = model.modules[0];

// The values of a layer's argument: the address without the number that netron adds to tell values apart, the shape,
// and the bytes that stand in the file.
const values = (list) => list.map(({ name, type, initializer }) => ({
    address: name.split('#')[0],
    shape: type?.shape.dimensions,
    bytes: initializer && Buffer.from(initializer.values).toString('hex'),
}));
const attribute = (value) => value instanceof Uint8Array ? [...value] : value;
const named = (list, of) => Object.fromEntries(list.map(({ name, value }) => [name, of(value)]));
const part = (node) => ({ type: node.type.name, attributes: named(node.attributes, attribute) });
const layer = (node) => ({
    ...part(node),
    inputs: named(node.inputs, values),
    outputs: named(node.outputs, values),
    chain: node.chain.map(part),
});
console.log(JSON.stringify({ format: model.format, layers: graph.nodes.map(layer) }));
