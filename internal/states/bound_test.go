// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/states"
)

// A state is untrusted: a comparison takes a few times its size.
func TestBounds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	resource := func(attributes, sensitive string) string {
		return fmt.Sprintf(`{"version":4,"resources":[{"type":"t","name":"n","instances":[{"attributes":%s,"sensitive_attributes":[%s]}]}]}`, attributes, sensitive)
	}
	const step = `{"type":"get_attr","value":"a"}`
	tests := []struct{ name, state, want string }{
		{"deep", resource(`{"a":`+nested(999)+`}`, ""), ""},
		{"too deep", resource(`{"a":`+nested(1001)+`}`, ""), "t.n: nested more than 1000 deep"},
		{"an output too deep", `{"outputs":{"o":{"value":` + nested(1002) + `}}}`, `output.o: nested more than 1000 deep`},
		{"deeper than the parser reads", resource(nested(10001), ""), "not a state file: at byte 10071: exceeded max depth"},
		{"empty", " \n", "not a state file: it is empty"},
		{"a list that is there twice", `{"resources":[{"type":"t","name":"n","instances":[{}]}],"resources":[]}`, "not a state file: resources is there twice"},
		{"long paths", resource(`{"`+strings.Repeat("n", 1<<20)+`":[0`+strings.Repeat(",0", 1000)+`]}`, ""), "t.n: too many values under long names"},
		{"long paths without values", resource(`{"`+strings.Repeat("n", 1<<20)+`":`+nested(900)+`}`, ""), "t.n: too many values under long names"},
		{"a mark of many steps", resource(`{"a":1}`, `[`+step+strings.Repeat(","+step, 100_000)+`]`), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := states.Parse([]byte(tt.state))
			if got := fmt.Sprint(err); got != tt.want && (tt.want != "" || err != nil) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}
