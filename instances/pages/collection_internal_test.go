// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"net/url"
	"reflect"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// FuzzParts reads values from forms that no page has: each is JSON or absent, and the form
// that is then shown gives the same value again.
func FuzzParts(f *testing.F) {
	for _, form := range []string{
		"p.x=&p.x.0.size=1&p.x.0.tags=&p.x.0.tags.3=a&p.x.0.labels=&p.x.0.labels.1.key=k&p.x.0.labels.1.value=v", "p.x=[1,{}]", "p.x=[", "p.x.0.labels.0.key=a&p.x.0.labels.0.value=b&p.x.0.labels.2.key=a",
		"p.x.-1=a&p.x.01=b&p.x.99999999999999999999=c&p.x.#=d", "more=p.x&p.x.7=1", "less=p.x.0&p.x.0=1",
	} {
		f.Add(form)
	}
	const schema = `{"properties":{"x":{"type":"array","items":{"type":"object","required":["size"],"properties":{
  "size":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"labels":{"type":"object","additionalProperties":{"type":"string"}}}}}},"x-okara-order":["x"]}`
	f.Fuzz(func(t *testing.T, query string) {
		form, err := url.ParseQuery(query)
		if err != nil || len(form) > 500 {
			return
		}
		p := must.Get(readParameters(json.RawMessage(schema)))(t)
		reshape(form)
		_, values, ok := p.read(form, p.choose())
		if !ok || values["x"] == nil {
			return
		}
		chosen := p.choose(values)
		_, again, ok := p.read(p.form(chosen), p.choose())
		value := decoded(values["x"])
		if !ok || !reflect.DeepEqual(p.Properties["x"].trim(decoded(again["x"])), p.Properties["x"].trim(value)) {
			t.Errorf("%s becomes %s", values["x"], again["x"])
		}
	})
}
