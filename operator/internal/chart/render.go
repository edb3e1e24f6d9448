// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options selects the chart and the values that Render uses.
type Options struct {
	Dir       string // of the chart
	Namespace string
	Values    map[string]any
	APIs      []string     // API versions of the cluster besides those of Kubernetes, as GROUP/VERSION
	Cluster   *rest.Config // whose objects templates look up; nil: they find none
}

// Render returns the rendered text of each template that yields objects, keyed by the
// file name of the template. Values that violate the schema of the chart are an error.
func Render(o Options) (map[string]string, error) {
	c, err := loader.LoadDir(o.Dir)
	if err != nil {
		return nil, err
	}
	caps := chartutil.DefaultCapabilities.Copy()
	caps.APIVersions = append(caps.APIVersions, o.APIs...)
	values, err := chartutil.ToRenderValues(c, o.Values, chartutil.ReleaseOptions{Name: "okara", Namespace: o.Namespace, Revision: 1, IsInstall: true}, caps)
	if err != nil {
		return nil, err
	}
	var e engine.Engine
	if o.Cluster != nil {
		e = engine.New(o.Cluster)
	}
	e.Strict = true
	texts, err := e.Render(c, values)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range texts {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(text) != "" {
			out[path.Base(name)] = text
		}
	}
	return out, nil
}

// Objects returns the output of Render as objects, in the order of the templates.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	texts, err := Render(o)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		list, err := Parse(texts[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// Parse reads a stream of objects and skips documents without content.
func Parse(text string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		switch err := dec.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			all = append(all, &o)
		}
	}
}

// Create creates objects one after another. The API server rejects unknown fields.
func Create(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	c, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	for _, o := range objects {
		if err := strict.Create(ctx, o.DeepCopy()); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
