// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"

	"google.golang.org/grpc"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	internal "berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// front is the gRPC side.
type front struct {
	core *core
	// namespace is where environments are unless a call names another.
	namespace string
}

// description is that of the service. It is made by hand: requests are decoded within the call, so that what is wrong with
// them has the name of a field.
func description() *grpc.ServiceDesc {
	published := &schedulerv1.SchedulerService_ServiceDesc
	return &grpc.ServiceDesc{
		ServiceName: published.ServiceName, HandlerType: (*any)(nil), Metadata: published.Metadata,
		Methods: []grpc.MethodDesc{
			server.Unary("CreateEnvironment", (*front).create),
			server.Unary("GetEnvironment", (*front).get),
			server.Unary("UpdateEnvironment", (*front).update),
			server.Unary("DeleteEnvironment", (*front).remove),
			server.Unary("ListEnvironments", (*front).list),
			server.Unary("StartEnvironment", (*front).start),
			server.Unary("StopEnvironment", (*front).stop),
			server.Unary("RestartEnvironment", (*front).restart),
			server.Unary("ScaleEnvironment", (*front).scale),
			server.Unary("GetEnvironmentStatus", (*front).status),
		},
		Streams: []grpc.StreamDesc{server.Streaming("GetEnvironmentLogs", maxLogsRequest, (*front).logs)},
	}
}

func (f *front) create(ctx context.Context, req *schedulerv1.CreateEnvironmentRequest) (*schedulerv1.CreateEnvironmentResponse, error) {
	name := req.GetSpec().GetName()
	where, _ := server.Namespace(ctx, f.namespace) // changed has its error
	e, err := f.changed(ctx, "create", internal.ID(where, name), func(namespace string) (*environment, error) {
		a, err := fromWire(req.GetSpec())
		if err != nil {
			return nil, err
		}
		if req.GetSpec().GetApplicationStack() == nil {
			return nil, server.InvalidField("spec.application_stack", "is missing")
		}
		id, err := idOf(namespace, name)
		if err != nil {
			return nil, err
		}
		return f.core.create(ctx, namespace, id, a)
	})
	return &schedulerv1.CreateEnvironmentResponse{Environment: e}, err
}

func (f *front) get(ctx context.Context, req *schedulerv1.GetEnvironmentRequest) (*schedulerv1.GetEnvironmentResponse, error) {
	e, running, err := f.read(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.GetEnvironmentResponse{Environment: withInstances(e, running)}, nil
}

func (f *front) update(ctx context.Context, req *schedulerv1.UpdateEnvironmentRequest) (*schedulerv1.UpdateEnvironmentResponse, error) {
	e, err := f.changed(ctx, internal.VerbUpdate, req.GetId(), func(namespace string) (*environment, error) {
		a, err := fromWire(req.GetSpec())
		if err != nil {
			return nil, err
		}
		return f.core.update(ctx, namespace, req.GetId(), a)
	})
	return &schedulerv1.UpdateEnvironmentResponse{Environment: e}, err
}

func (f *front) remove(ctx context.Context, req *schedulerv1.DeleteEnvironmentRequest) (*schedulerv1.DeleteEnvironmentResponse, error) {
	_, err := f.audited(ctx, internal.VerbDelete, req.GetId(), func(namespace string) (*environment, error) {
		return f.core.remove(ctx, namespace, req.GetId())
	})
	return &schedulerv1.DeleteEnvironmentResponse{Success: err == nil}, err
}

func (f *front) list(ctx context.Context, req *schedulerv1.ListEnvironmentsRequest) (*schedulerv1.ListEnvironmentsResponse, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return nil, err
	}
	return f.core.list(ctx, namespace, req)
}

func (f *front) start(ctx context.Context, req *schedulerv1.StartEnvironmentRequest) (*schedulerv1.StartEnvironmentResponse, error) {
	e, err := f.run(ctx, internal.VerbStart, req.GetId(), internal.Start)
	return &schedulerv1.StartEnvironmentResponse{Environment: e}, err
}

func (f *front) stop(ctx context.Context, req *schedulerv1.StopEnvironmentRequest) (*schedulerv1.StopEnvironmentResponse, error) {
	e, err := f.run(ctx, internal.VerbStop, req.GetId(), func(e *environment) error { return internal.Stop(e, req.GetForce()) })
	return &schedulerv1.StopEnvironmentResponse{Environment: e}, err
}

func (f *front) restart(
	ctx context.Context, req *schedulerv1.RestartEnvironmentRequest,
) (*schedulerv1.RestartEnvironmentResponse, error) {
	e, err := f.run(ctx, internal.VerbRestart, req.GetId(), func(e *environment) error { return internal.Restart(e, f.core.now()) })
	return &schedulerv1.RestartEnvironmentResponse{Environment: e}, err
}

func (f *front) scale(ctx context.Context, req *schedulerv1.ScaleEnvironmentRequest) (*schedulerv1.ScaleEnvironmentResponse, error) {
	e, err := f.changed(ctx, "scale", req.GetId(), func(namespace string) (*environment, error) {
		return f.core.scale(ctx, namespace, req.GetId(), req.GetReplicas())
	})
	return &schedulerv1.ScaleEnvironmentResponse{Environment: e}, err
}

func (f *front) status(
	ctx context.Context, req *schedulerv1.GetEnvironmentStatusRequest,
) (*schedulerv1.GetEnvironmentStatusResponse, error) {
	e, running, err := f.read(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.GetEnvironmentStatusResponse{
		Environment: withInstances(e, running), ContainerMetrics: f.core.metrics(ctx, e, running),
	}, nil
}

// maxLogsRequest bounds a request for logs, in bytes: it has an id and the name of a component.
const maxLogsRequest = 64 << 10

func (f *front) logs(ctx context.Context, req *schedulerv1.GetEnvironmentLogsRequest, send sender) error {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return err
	}
	return f.core.logs(ctx, namespace, req, send)
}

// run changes whether the environment of an id runs, and shows what it is then.
func (f *front) run(ctx context.Context, verb internal.Verb, id string, once func(*environment) error) (*schedulerv1.Environment, error) {
	return f.changed(ctx, verb, id, func(namespace string) (*environment, error) {
		return f.core.run(ctx, namespace, id, once)
	})
}

// changed shows an environment as a change has left it. The change was written, even if the containers cannot be read now.
func (f *front) changed(
	ctx context.Context, verb internal.Verb, id string, do func(namespace string) (*environment, error),
) (*schedulerv1.Environment, error) {
	e, err := f.audited(ctx, verb, id, do)
	if err != nil {
		return nil, err
	}
	running, err := f.core.store.instances(ctx, e)
	if err != nil {
		f.core.log.V(2).Info("The containers of an environment could not be read", "environment", e.Name, "error", err.Error())
	}
	return withInstances(e, running), nil
}

// read returns the environment of an id, and its containers.
func (f *front) read(ctx context.Context, id string) (*environment, []instance, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return nil, nil, err
	}
	e, err := f.core.read(ctx, namespace, id, "get", "")
	if err != nil {
		return nil, nil, err
	}
	running, err := f.core.store.instances(ctx, e)
	return e, running, err
}

// audited writes down what came of a change of the environment of an id.
func (f *front) audited(
	ctx context.Context, verb internal.Verb, id string, do func(namespace string) (*environment, error),
) (*environment, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	return f.core.audited(ctx, string(verb), namespace, id, func() (*environment, error) {
		if err != nil {
			return nil, err
		}
		return do(namespace)
	})
}

func withInstances(e *environment, running []instance) *schedulerv1.Environment {
	out := toWire(e)
	for i := range running {
		out.Containers = append(out.Containers, running[i].toWire(e.Status.Ports))
	}
	return out
}
