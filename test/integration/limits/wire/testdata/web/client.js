// SPDX-License-Identifier: Apache-2.0
//
// Calls Berth from a page, or from Node.js, with clients that are not ours: those of Connect and of grpc-web, generated
// from the published proto.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import grpcWeb from "grpc-web";
import {
  GetResourceLimitRequestSchema,
  McpOrchestratorService,
  ResourceLimitResponseSchema,
} from "./gen/mcp/orchestrator/v1/orchestrator_pb.js";
import { Health, HealthCheckRequestSchema, HealthCheckResponseSchema } from "./gen/grpc/health/v1/health_pb.js";

// A method of the client of grpc-web, which its own generator writes for google-protobuf.
function method(path, type, requestSchema, responseSchema) {
  return new grpcWeb.MethodDescriptor(path, type, Object, Object,
    (request) => toBinary(requestSchema, request), (bytes) => fromBinary(responseSchema, bytes));
}

async function code(call) {
  try {
    await call;
    return "OK";
  } catch (e) {
    return e instanceof ConnectError ? Code[e.code] : String(e);
  }
}

// binary makes calls of the binary form by fetch.
async function binary({ address, token, namespace, name }) {
  const transport = createGrpcWebTransport({ baseUrl: address });
  const limits = createClient(McpOrchestratorService, transport);
  const headers = { authorization: `Bearer ${token}`, "berth-namespace": namespace, "berth-wire-form": "any" };
  const selector = new TextEncoder().encode(JSON.stringify({ disktype: "ssd" }));
  await limits.createResourceLimit({
    name, description: "é", limits: { cpu: "1", memory: "1Gi", nodeSelector: { typeUrl: "kubernetes.io/NodeSelector", value: selector } },
  }, { headers, timeoutMs: 8000 });
  const got = await limits.getResourceLimit({ name }, { headers });
  let invalid = "";
  try {
    await limits.createResourceLimit({ name: "Wrong!", limits: { cpu: "1", memory: "1Gi" } }, { headers });
  } catch (e) {
    invalid = `${Code[e.code]} ${e.details.length} ${e.rawMessage}`;
  }
  const stop = new AbortController();
  let health = "";
  for await (const message of createClient(Health, transport).watch({}, { signal: stop.signal })) {
    health = message.status;
    break;
  }
  stop.abort();
  return {
    name: got.name, description: got.description, cpu: got.limits.cpu, selector: new TextDecoder().decode(got.limits.nodeSelector.value),
    invalid, health, withoutToken: await code(limits.getResourceLimit({ name })),
  };
}

// text makes calls of the text form by XMLHttpRequest, which only pages have.
async function text({ address, token, namespace, name }) {
  const client = new grpcWeb.GrpcWebClientBase({ format: "text" });
  const metadata = { authorization: `Bearer ${token}`, "berth-namespace": namespace, "berth-wire-form": "any" };
  const path = address + "/mcp.orchestrator.v1.McpOrchestratorService/GetResourceLimit";
  const get = method(path, grpcWeb.MethodType.UNARY, GetResourceLimitRequestSchema, ResourceLimitResponseSchema);
  const got = await client.unaryCall(path, create(GetResourceLimitRequestSchema, { name }), metadata, get);
  let missing = "";
  await client.unaryCall(path, create(GetResourceLimitRequestSchema, { name: "missing" }), metadata, get).catch((e) => { missing = String(e.code); });
  const watch = address + "/grpc.health.v1.Health/Watch";
  const health = await new Promise((resolve, reject) => {
    const stream = client.serverStreaming(watch, create(HealthCheckRequestSchema), {},
      method(watch, grpcWeb.MethodType.SERVER_STREAMING, HealthCheckRequestSchema, HealthCheckResponseSchema));
    stream.on("data", (message) => { resolve(message.status); stream.cancel(); });
    stream.on("error", reject);
  });
  return { name: got.name, cpu: got.limits.cpu, missing, health };
}

export async function run(options) {
  try {
    const result = { binary: await binary(options) };
    if (typeof XMLHttpRequest !== "undefined") {
      result.text = await text(options);
    }
    return result;
  } catch (e) {
    return { error: String(e) };
  }
}
