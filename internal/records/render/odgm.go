// SPDX-License-Identifier: Apache-2.0

package render

import "berth.dev/berth/apis/v1alpha1"

// odgmManifests are those of the template, else the controller's own: a
// Deployment and a Service, which has the advertised port and port 80.
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
