// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
)

func TestFieldsHaveTheNamesOfTheProto(t *testing.T) {
	spec := &v1alpha1.EnvironmentSpec{}
	spec.Stack.AdditionalServices = []v1alpha1.AdditionalService{{Name: "redis-cache"}, {Name: "mail"}}
	for field, want := range map[string]string{
		"metadata.name":                                                "spec.name",
		"spec":                                                         "spec",
		"spec.displayName":                                             "spec.name",
		"spec.description":                                             "spec.description",
		"spec.labels":                                                  "spec.labels",
		"spec.labels.a.b/c":                                            "spec.labels[a.b/c]",
		"spec.labels[a.b/c]":                                           "spec.labels[a.b/c]",
		"spec.network.name":                                            "spec.network.network_name",
		"spec.network.subnet":                                          "spec.network.subnet",
		"spec.stack":                                                   "spec.application_stack",
		"spec.stack.version":                                           "spec.application_stack.version",
		"spec.stack.frontend.domains[3]":                               "spec.application_stack.frontend.domains[3]",
		"spec.stack.frontend.tlsEnabled":                               "spec.application_stack.frontend.ssl_enabled",
		"spec.stack.frontend.container.image":                          "spec.application_stack.frontend.container.image",
		"spec.stack.backend.container.env":                             "spec.application_stack.backend.container.environment_variables",
		"spec.stack.backend.container.env.A.B":                         "spec.application_stack.backend.container.environment_variables[A.B]",
		"spec.stack.backend.container.env[A]":                          "spec.application_stack.backend.container.environment_variables[A]",
		"spec.stack.database.databaseName":                             "spec.application_stack.database.database_name",
		"spec.stack.database.storagePath":                              "spec.application_stack.database.storage_path",
		"spec.stack.database.container.ports[0].containerPort":         "spec.application_stack.database.container.ports[0].container_port",
		"spec.stack.database.container.volumes[1].mountPath":           "spec.application_stack.database.container.volumes[1].mount_path",
		"spec.stack.database.container.resources.cpu":                  "spec.application_stack.database.container.resources.cpu_cores",
		"spec.stack.database.container.resources.memory":               "spec.application_stack.database.container.resources.memory_mb",
		"spec.stack.database.container.resources.disk":                 "spec.application_stack.database.container.resources.disk_mb",
		"spec.stack.database.container.healthCheck.command":            "spec.application_stack.database.container.health_check.command",
		"spec.stack.database.container.healthCheck.startPeriodSeconds": "spec.application_stack.database.container.health_check.start_period_seconds",
		"spec.stack.database.container.restartPolicy":                  "spec.application_stack.database.container.restart_policy",
		"spec.stack.additionalServices":                                "spec.application_stack.additional_services",
		"spec.stack.additionalServices[0]":                             "spec.application_stack.additional_services[redis-cache]",
		"spec.stack.additionalServices[1].name":                        "spec.application_stack.additional_services[mail]",
		"spec.stack.additionalServices[1].container":                   "spec.application_stack.additional_services[mail]",
		"spec.stack.additionalServices[1].container.name":              "spec.application_stack.additional_services[mail].name",
		"spec.stack.additionalServices[1].container.ports[2].hostPort": "spec.application_stack.additional_services[mail].ports[2].host_port",
		"spec.stack.additionalServices[redis-cache].container.env.A":   "spec.application_stack.additional_services[redis-cache].environment_variables[A]",
		"spec.stack.additionalServices[9].container.image":             "spec.application_stack.additional_services[9].image",
		"id":         "id",
		"page_token": "page_token",
	} {
		assert.Equal(t, want, wireField(spec)(field), field)
		if strings.HasPrefix(want, "spec") {
			requireField(t, want)
		}
	}
}

var brackets = regexp.MustCompile(`\[[^\]]*\]`)

// requireField demands that the proto has a field.
func requireField(t require.TestingT, path string) {
	message := (&schedulerv1.CreateEnvironmentRequest{}).ProtoReflect().Descriptor()
	for name := range strings.SplitSeq(brackets.ReplaceAllString(path, ""), ".") {
		require.NotNil(t, message, path)
		f := message.Fields().ByName(protoreflect.Name(name))
		require.NotNil(t, f, "%s of %s", name, path)
		switch {
		case f.IsMap():
			message = f.MapValue().Message()
		default:
			message = f.Message()
		}
	}
}
