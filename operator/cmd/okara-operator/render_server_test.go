// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// fixedExamples returns the objects on the pages of the kinds that render checks by their CRDs.
func fixedExamples(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, page := range must.Get(filepath.Glob(filepath.Join(rig.Root(), "docs", "kubernetes", "*.md")))(t) {
		src := must.Get(os.ReadFile(page))(t)
		for _, m := range regexp.MustCompile("(?ms)^```yaml apply[^\n]*\n(.*?)^```").FindAllStringSubmatch(string(src), -1) {
			for text := range strings.SplitSeq(m[1], "\n---\n") {
				o := &unstructured.Unstructured{}
				must.Succeed(t, yaml.Unmarshal([]byte(text), &o.Object))
				if slices.Contains([]string{"ModuleKind", "Template", "Instance"}, o.GetKind()) {
					all = append(all, o)
				}
			}
		}
	}
	return all
}

// changeField changes one field at random, at any depth.
func changeField(random *rand.Rand, m map[string]any) {
	keys := slices.Sorted(maps.Keys(m))
	key := keys[random.IntN(len(keys))]
	if inner, ok := m[key].(map[string]any); ok && len(inner) > 0 && random.IntN(4) > 0 {
		changeField(random, inner)
		return
	}
	if list, ok := m[key].([]any); ok && len(list) > 0 && random.IntN(4) > 0 {
		if inner, ok := list[random.IntN(len(list))].(map[string]any); ok && len(inner) > 0 {
			changeField(random, inner)
			return
		}
		m[key] = append(list, list[0])
		return
	}
	values := []any{"", "a", "A b", strings.Repeat("a", 5000), "10m", "-1h", int64(-1), int64(0), int64(7), 1.5, true, nil, []any{}, []any{"a", "a"}, map[string]any{}, map[string]any{"a": "b"}}
	switch value := values[random.IntN(len(values))]; random.IntN(4) {
	case 0:
		delete(m, key)
	case 1:
		m[key+"x"] = value
	default:
		m[key] = value
	}
}

// TestRenderAsTheServer changes the pages' objects at random: render refuses what the API server
// refuses, and nothing else.
func TestRenderAsTheServer(t *testing.T) {
	admin := cluster.Admin(t)
	install(t, admin)
	c := must.Get(client.New(admin, client.Options{Scheme: runtime.NewScheme()}))(t)
	examples, namespace := fixedExamples(t), cluster.Namespace(t, nil).Name
	random := rand.New(rand.NewPCG(52, 4))
	refused := 0
	for range 600 {
		o := examples[random.IntN(len(examples))].DeepCopy()
		for range 1 + random.IntN(2) {
			if spec, ok := o.Object["spec"].(map[string]any); ok && len(spec) > 0 {
				changeField(random, spec)
			}
		}
		if names := []string{"A", "a", "a.b", "a..b", "-a", "abcdefghjk", "a_b", strings.Repeat("a", 300)}; random.IntN(8) == 0 {
			o.SetName(names[random.IntN(len(names))])
		}
		if o.GetNamespace() != "" {
			o.SetNamespace(namespace)
		}
		text := must.Get(yaml.Marshal(o.Object))(t)
		here := checkFixed(document{kind: metav1.TypeMeta{APIVersion: o.GetAPIVersion(), Kind: o.GetKind()}, text: text})
		there := c.Create(t.Context(), o, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		if (here == nil) != (there == nil) {
			t.Errorf("%s\nrender: %v\nthe API server: %v", text, here, there)
		}
		if there != nil {
			refused++
		}
	}
	if refused < 100 || refused > 500 {
		t.Errorf("%d of 600 refused", refused)
	}
}
