// A schema validator: small composable checks that collect every problem with its path.

'use strict';

class Problem {
  constructor(path, message) {
    this.path = path;
    this.message = message;
  }

  toString() {
    return `${this.path || '(root)'}: ${this.message}`;
  }
}

class Schema {
  constructor() {
    this.checks = [];
    this.required = true;
  }

  optional() {
    this.required = false;
    return this;
  }

  check(test, message) {
    this.checks.push({ test, message });
    return this;
  }

  validate(value, path = '') {
    if (value === undefined || value === null) {
      return this.required ? [new Problem(path, 'is required')] : [];
    }
    const problems = this.validateType(value, path);
    if (problems.length > 0) {
      return problems;
    }
    for (const { test, message } of this.checks) {
      if (!test(value)) {
        problems.push(new Problem(path, message));
      }
    }
    return problems;
  }

  validateType(_value, _path) {
    return [];
  }
}

class StringSchema extends Schema {
  validateType(value, path) {
    if (typeof value !== 'string') {
      return [new Problem(path, `must be a string, got ${typeof value}`)];
    }
    return [];
  }

  minLength(length) {
    return this.check((value) => value.length >= length, `must have at least ${length} characters`);
  }

  maxLength(length) {
    return this.check((value) => value.length <= length, `must have at most ${length} characters`);
  }

  matches(pattern) {
    return this.check((value) => pattern.test(value), `must match ${pattern}`);
  }

  oneOf(choices) {
    return this.check((value) => choices.includes(value), `must be one of ${choices.join(', ')}`);
  }
}

class NumberSchema extends Schema {
  validateType(value, path) {
    if (typeof value !== 'number' || Number.isNaN(value)) {
      return [new Problem(path, `must be a number, got ${typeof value}`)];
    }
    return [];
  }

  min(limit) {
    return this.check((value) => value >= limit, `must be at least ${limit}`);
  }

  max(limit) {
    return this.check((value) => value <= limit, `must be at most ${limit}`);
  }

  integer() {
    return this.check((value) => Number.isInteger(value), 'must be an integer');
  }
}

class BooleanSchema extends Schema {
  validateType(value, path) {
    if (typeof value !== 'boolean') {
      return [new Problem(path, `must be a boolean, got ${typeof value}`)];
    }
    return [];
  }
}

class ArraySchema extends Schema {
  constructor(element) {
    super();
    this.element = element;
  }

  validateType(value, path) {
    if (!Array.isArray(value)) {
      return [new Problem(path, `must be an array, got ${typeof value}`)];
    }
    return value.flatMap((entry, index) => this.element.validate(entry, `${path}[${index}]`));
  }

  minItems(count) {
    return this.check((value) => value.length >= count, `must have at least ${count} items`);
  }

  maxItems(count) {
    return this.check((value) => value.length <= count, `must have at most ${count} items`);
  }
}

class ObjectSchema extends Schema {
  constructor(fields) {
    super();
    this.fields = fields;
  }

  validateType(value, path) {
    if (typeof value !== 'object' || Array.isArray(value)) {
      return [new Problem(path, `must be an object, got ${typeof value}`)];
    }
    const problems = [];
    for (const [name, schema] of Object.entries(this.fields)) {
      const fieldPath = path ? `${path}.${name}` : name;
      problems.push(...schema.validate(value[name], fieldPath));
    }
    return problems;
  }
}

const string = () => new StringSchema();
const number = () => new NumberSchema();
const boolean = () => new BooleanSchema();
const array = (element) => new ArraySchema(element);
const object = (fields) => new ObjectSchema(fields);

const customer = object({
  name: string().minLength(1).maxLength(100),
  email: string().matches(/^[^@\s]+@[^@\s]+$/),
  age: number().integer().min(0).max(150).optional(),
  newsletter: boolean().optional(),
  addresses: array(
    object({
      street: string().minLength(1).maxLength(100),
      city: string().minLength(1).maxLength(100),
      country: string().oneOf(['DE', 'FR', 'NL', 'PL']),
    }),
  ).minItems(1),
});

module.exports = { Problem, string, number, boolean, array, object, customer };
