// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/podlogs"
)

// mostContainers is how many logs of a pod are read at once.
const mostContainers = 16

// Containers are the names of the containers of a pod: those that run all the time, those that run before them, and those that were added.
func Containers(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// Started is the container with a name that ran last in a pod, "" if none has run yet, and whether it runs.
func Started(pod *corev1.Pod, name string) (id string, running bool) {
	s := &pod.Status
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if s := &list[i]; s.Name == name {
				return podlogs.Started(s)
			}
		}
	}
	return "", false
}

// OfPod prints the last lines of the log of a container of a pod, or with "" of all of them, and with follow those that come until the
// context ends.
func OfPod(
	ctx context.Context, o *command.Options, c client.Client, key client.ObjectKey, container string, tail int64, follow bool,
) error {
	open, err := FromAPI(o)
	if err != nil {
		return err
	}
	return ofPod(ctx, &Printer{Command: o, Open: open, Tail: tail, Poll: Poll}, c, key, container, follow)
}

func ofPod(ctx context.Context, p *Printer, c client.Reader, key client.ObjectKey, container string, follow bool) error {
	pod := &corev1.Pod{}
	if err := c.Get(ctx, key, pod); err != nil {
		return err
	}
	names := Containers(pod)
	p.Plain = container != "" || len(names) == 1
	if container != "" {
		if !slices.Contains(names, container) {
			return fmt.Errorf("container is %q: it must be one of %s", container, strings.Join(names, ", "))
		}
		names = []string{container}
	}
	if n := len(names); n > mostContainers {
		p.Command.Note("The first %d of %d containers are shown: choose one to see another.", mostContainers, n)
		names = names[:mostContainers]
	}
	if !follow {
		return p.SoFar(ctx, containersOf(pod, names), nil)
	}
	gone, err := p.Follow(ctx, findPod(c, key, pod.UID, names))
	if gone {
		p.Command.Note("Pod %s was deleted.", key)
	}
	return err
}

// findPod returns what finds the containers with these names of one pod. A pod that has its name later is another one.
func findPod(c client.Reader, key client.ObjectKey, uid types.UID, names []string) Find {
	return func(ctx context.Context) ([]podlogs.Container, error) {
		pod := &corev1.Pod{}
		err := c.Get(ctx, key, pod)
		switch {
		case apierrors.IsNotFound(err), err == nil && pod.UID != uid:
			return nil, io.EOF
		case err != nil:
			return nil, err
		}
		return containersOf(pod, names), nil
	}
}

func containersOf(pod *corev1.Pod, names []string) (found []podlogs.Container) {
	for _, name := range names {
		id, running := Started(pod, name)
		found = append(found, podlogs.Container{Pod: pod, Name: name, Component: name, ID: id, Running: running})
	}
	return found
}
