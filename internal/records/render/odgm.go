// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"slices"

	"berth.dev/berth/apis/v1alpha1"
)

// ODGMPort is where the ODGM serves; its Service has it under this number and under 80.
const ODGMPort = 8081

// ErrNoODGMImage is why a record with an ODGM cannot be rendered while no image is configured.
var ErrNoODGMImage = errors.New("the record has an ODGM, and records.odgmImage of berth-controller's configuration is empty: " +
	"set that field to an image, or spec.addons of the record to a list without odgm")

// ODGM is that of a record. The zero value is none.
type ODGM struct {
	// Name is that of its workload, Service that of its Service, Address where functions reach it.
	Name, Service, Address string
	manifests              []string
}

// odgmOf returns the ODGM of a record.
func odgmOf(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings, n names) (ODGM, error) {
	switch on := HasODGM(&record.Spec, s.ODGM); {
	case !on && NeedsODGM(&record.Spec):
		err := errors.New("spec.addons or a WebAssembly function requests an ODGM, which is off (records.features.odgm)")
		return ODGM{}, &Error{v1alpha1.ReasonODGMOff, err}
	case !on:
		return ODGM{}, nil
	case s.ODGMImage == "":
		return ODGM{}, &Error{v1alpha1.ReasonImageMissing, ErrNoODGMImage}
	}
	return ODGM{
		Name: n.odgm, Service: n.odgmService, Address: fmt.Sprintf("%s:%d", n.odgmService, ODGMPort), manifests: odgmManifests(t),
	}, nil
}

// HasODGM reports whether a record has an ODGM: it is on, and the record names it or no addons at all.
func HasODGM(spec *v1alpha1.DeploymentRecordSpec, on bool) bool {
	return on && (spec.Addons == nil || slices.Contains(*spec.Addons, v1alpha1.AddonODGM))
}

// NeedsODGM reports whether a record requires an ODGM: it names the addon, or has a function that runs in it.
func NeedsODGM(spec *v1alpha1.DeploymentRecordSpec) bool {
	return spec.Addons != nil && slices.Contains(*spec.Addons, v1alpha1.AddonODGM) ||
		slices.ContainsFunc(spec.DeploymentUnit.Functions, func(f v1alpha1.FunctionSpec) bool { return runsInODGM(&f) })
}

func runsInODGM(f *v1alpha1.FunctionSpec) bool { return f.WASMModuleURL != "" }

// odgmManifests returns those of the template, else the controller's own: a Deployment and a Service, which has the advertised port
// and port 80.
func odgmManifests(t *v1alpha1.DeploymentTemplate) []string {
	if len(t.Spec.ODGMManifests) > 0 {
		return t.Spec.ODGMManifests
	}
	return []string{odgmDeployment, odgmService}
}

const odgmDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  labels: {app: "${name}"}
spec:
  replicas: 1
  selector:
    matchLabels: {app: "${name}"}
  template:
    metadata:
      labels: {app: "${name}"}
    spec:
      containers:
      - name: odgm
        image: ${image}
        env: ${env}
        ports:
        - {name: http, containerPort: "${port}"}
`

const odgmService = `
apiVersion: v1
kind: Service
metadata:
  name: ${service}
  labels: {app: "${name}"}
spec:
  selector: {app: "${name}"}
  ports:
  - {name: http, port: 80, targetPort: "${port}"}
  - {name: odgm, port: "${port}", targetPort: "${port}"}
`
