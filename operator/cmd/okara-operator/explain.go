// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/explain"
)

const explainLong = `Explain on one page what an object is waiting for: its conditions, the state of its runs,
its latest events, and the commands that help. KIND is a kind of okara, or one
that a ModuleKind defines, by any name that kubectl accepts.

It reads with the rights of the kubeconfig, and changes nothing. It lists what these
rights do not allow it to read, such as the objects of Flux. The exit code is 0 if the
object could be read, whatever its state, 1 if not, and 2 for an invalid argument.`

const explainExample = `  okara-operator explain vpc prod -n tenant-acme
  okara-operator explain okinst abcdefghjk -n okara-instances
  okara-operator explain modulekind vpcs`

type explainFlags struct{ kubeconfig, namespace string }

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use: "explain KIND NAME", Short: "Explain what an object is waiting for", Long: explainLong, Example: explainExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("explain requires a kind and a name")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.explain(cmd.Context(), args[0], args[1], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE`")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the object (default that of the kubeconfig)")
	return cmd
}

func (f *explainFlags) explain(ctx context.Context, kind, name string, out io.Writer) error {
	config, namespace, err := loadConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	f.namespace = cmp.Or(f.namespace, namespace)
	mapping, mapper, err := kindOf(config, kind)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	key := client.ObjectKey{Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = f.namespace
	}
	if err := c.Get(ctx, key, o); apierrors.IsNotFound(err) {
		return &hintError{err, "it may be in another namespace: specify it with -n"}
	} else if err != nil {
		return err
	}
	_, err = io.WriteString(out, (&explain.Explainer{Client: c, Now: time.Now()}).Explain(ctx, o))
	return err
}

// kindOf finds a kind of okara by any name that kubectl accepts.
func kindOf(config *rest.Config, name string) (*meta.RESTMapping, meta.RESTMapper, error) {
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	cached := memory.NewMemCacheClient(found)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	resource, group, _ := strings.Cut(strings.ToLower(name), ".")
	kinds, err := mapper.KindsFor(schema.GroupVersionResource{Group: group, Resource: resource})
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, nil, err
	}
	kinds = slices.DeleteFunc(kinds, func(k schema.GroupVersionKind) bool {
		return k.Group != v1alpha1.Group && k.Group != v1alpha1.KindsGroup
	})
	if len(kinds) == 0 {
		return nil, nil, &hintError{fmt.Errorf("okara has no kind %q in this cluster", name), "see kubectl api-resources --categories okara"}
	}
	mapping, err := mapper.RESTMapping(kinds[0].GroupKind(), kinds[0].Version)
	return mapping, mapper, err
}
