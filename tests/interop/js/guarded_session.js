// kafkajs as a user with rights to some names: does what it may, tries what it may not, and tells what became of each.
//
// The argument is JSON: bootstrap, protocol, mechanism, user, word, token (of OAUTHBEARER), ca, own (file with key and
// certificate, or null), open, shut (names), count (of records). Prints one JSON object.
const fs = require('fs');
const { Kafka, logLevel } = require('kafkajs');

const told = JSON.parse(process.argv[2]);

function client(word) {
  const text = (file) => fs.readFileSync(file, 'utf8');
  const own = told.own ? { key: text(told.own), cert: text(told.own) } : {};
  const settings = {
    brokers: [told.bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { retries: 2, initialRetryTime: 100 },
    connectionTimeout: 30000,
    authenticationTimeout: 30000,
  };
  if (told.protocol.includes('SSL')) settings.ssl = { ca: [text(told.ca)], ...own };
  if (told.mechanism === 'OAUTHBEARER') {
    settings.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: told.token }) };
  } else if (told.mechanism) {
    settings.sasl = { mechanism: told.mechanism.toLowerCase(), username: told.user, password: word };
  }
  return new Kafka(settings);
}

// The error of the broker where there is one; kafkajs wraps it.
function reason(error) {
  for (let each = error; each; each = each.cause || each.originalError) if (each.type) return each.type;
  return error.name;
}

async function tried(doing, ends) {
  try {
    return await doing();
  } catch (error) {
    return reason(error);
  } finally {
    await ends().catch(() => {});
  }
}

function send(topic, idempotent, word = told.word) {
  const producer = client(word).producer({ idempotent, maxInFlightRequests: 1 });
  const messages = [...Array(told.count).keys()].map((number) => ({ value: `value ${number}` }));
  return tried(async () => {
    await producer.connect();
    await producer.send({ topic, messages });
    return 'sent';
  }, () => producer.disconnect());
}

function transact(transactionalId, commit) {
  const producer = client(told.word).producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  return tried(async () => {
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic: told.open, messages: [{ value: commit ? 'committed' : 'aborted' }] });
    await (commit ? transaction.commit() : transaction.abort());
    return 'done';
  }, () => producer.disconnect());
}

function read(topic, groupId, count) {
  const consumer = client(told.word).consumer({ groupId, retry: { retries: 2, restartOnFailure: async () => false } });
  return tried(() => new Promise((settle, fail) => {
    let seen = 0;
    const take = async ({ message }) => {
      seen += 1;
      if (seen === count) settle(`${seen}, the last of them ${message.value}`);
    };
    consumer.on('consumer.crash', ({ payload }) => fail(payload.error));
    consumer.connect()
      .then(() => consumer.subscribe({ topic, fromBeginning: true }))
      .then(() => consumer.run({ eachMessage: take }))
      .catch(fail);
  }), () => consumer.disconnect());
}

async function main() {
  const said = {
    'sends': await send(told.open, false),
    'sends idempotently': await send(told.open, true),
    'aborts': await transact(told.open, false),
    'commits': await transact(told.open, true),
    'reads': await read(told.open, told.open, 2 * told.count + 1),
    'sends where it may not': await send(told.shut, false),
    'joins where it may not': await read(told.open, told.shut, 1),
    'transacts where it may not': await transact(told.shut, true),
  };
  if (told.word) said['has the wrong password'] = await send(told.open, false, 'wrong');
  console.log(JSON.stringify(said));
  process.exit(0);
}

main();
