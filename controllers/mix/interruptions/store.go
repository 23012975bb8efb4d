// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/interruptions"
)

const (
	fieldOwner = "berth-controller-interruptions"
	// callTimeout bounds one call to the API server.
	callTimeout = 5 * time.Second
)

// store reads and writes the ConfigMap. It is written in the version that was read, so what another leader has counted since is not
// lost.
type store struct {
	*Options
	// current is what the ConfigMap has, nil while that is unknown.
	current *interruptions.Table
	version string
}

// read returns what is counted, from the ConfigMap if its content is unknown.
func (s *store) read(ctx context.Context, now time.Time) (interruptions.Table, error) {
	if s.current != nil {
		return *s.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := s.Client.CoreV1().ConfigMaps(s.ConfigMap.Namespace).Get(ctx, s.ConfigMap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.ConfigMap{}
	case err != nil:
		return interruptions.Table{}, fmt.Errorf("read ConfigMap %s: %w", s.ConfigMap, err)
	}
	table, err := interruptions.Decode(object.Data[interruptions.DataKey], s.Keys, now)
	if err != nil {
		log.FromContext(ctx).Error(err, "The interruptions that were counted before are lost", "configMap", s.ConfigMap)
	}
	s.current, s.version = &table, object.ResourceVersion
	return table, nil
}

// write writes what is counted. After a failure the content is unknown: another leader wrote it, or the answer was lost.
func (s *store) write(ctx context.Context, t *interruptions.Table) error {
	s.current = nil
	text, err := t.Encode()
	if err != nil {
		return err
	}
	object := corev1apply.ConfigMap(s.ConfigMap.Name, s.ConfigMap.Namespace).WithData(map[string]string{interruptions.DataKey: text}).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "berth"})
	if s.version != "" {
		object.WithResourceVersion(s.version)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	written, err := s.Client.CoreV1().ConfigMaps(s.ConfigMap.Namespace).Apply(ctx, object,
		metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", s.ConfigMap, err)
	}
	s.current, s.version = t, written.ResourceVersion
	return nil
}
