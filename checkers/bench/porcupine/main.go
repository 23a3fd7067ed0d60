// Porcupine on histories from files, for comparison: how long its check alone takes, on one core.
//
//	porcupine [-seconds 60] [-bytes 8000000000] [-runs 5] [-spend 30] FILE...
//
// A file is what checkers/bench/baseline.py writes: eight bytes "FPBENCH1"; the model, the number of operations and the
// number of keys (int64); then a column after the other, all little-endian: call, return, first and second argument
// (int64), key (uint32), kind and outcome (uint8). All files are read first; a run checks all of them. One JSON object
// is printed: results by file ("Ok", "Illegal"), seconds of CPU time by run, the largest resident size in bytes, and,
// where a bound was passed, which ("seconds", "bytes"): then there are no results, and the time is that until then.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	acquire = iota
	release
	read
	write
	cas
)

const (
	ok = iota + 1
	fail
	unknown
)

const none = -1

// An input says what was asked and what came of it: Porcupine's outputs are not needed beside it.
type input struct {
	key     uint32
	kind    uint8
	outcome uint8
	a, b    int64
}

type answer struct {
	Results []string  `json:"results"`
	Seconds []float64 `json:"seconds"`
	Bytes   int64     `json:"bytes"`
	Passed  string    `json:"passed"`
}

type history struct {
	model      porcupine.Model
	operations []porcupine.Operation
}

func main() {
	seconds := flag.Float64("seconds", 60, "CPU time that one run may take")
	limit := flag.Int64("bytes", 8e9, "resident size that is allowed")
	runs := flag.Int("runs", 5, "how often to check")
	spend := flag.Float64("spend", 30, "CPU time after which no further run begins")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	histories := make([]history, flag.NArg())
	for n, path := range flag.Args() {
		var err error
		if histories[n], err = load(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	var mutex sync.Mutex
	var began atomic.Uint64
	result := answer{Results: []string{}, Seconds: []float64{}}
	finish := func() {
		result.Bytes = max(result.Bytes, resident())
		text, _ := json.Marshal(result)
		fmt.Println(string(text))
		os.Exit(0)
	}
	began.Store(math.Float64bits(cpu()))
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			mutex.Lock()
			result.Bytes = max(result.Bytes, resident())
			taken := cpu() - math.Float64frombits(began.Load())
			if taken > *seconds {
				result.Passed = "seconds"
			} else if result.Bytes > *limit {
				result.Passed = "bytes"
			}
			if result.Passed != "" {
				result.Results, result.Seconds = []string{}, []float64{taken}
				finish()
			}
			mutex.Unlock()
		}
	}()
	spent := 0.0
	for run := 0; run < *runs && (run == 0 || spent < *spend); run++ {
		runtime.GC()
		results := make([]string, len(histories))
		start := cpu()
		began.Store(math.Float64bits(start))
		for n, h := range histories {
			results[n] = string(porcupine.CheckOperationsTimeout(h.model, h.operations, 0))
		}
		taken := cpu() - start
		mutex.Lock()
		result.Results = results
		result.Seconds = append(result.Seconds, taken)
		mutex.Unlock()
		spent += taken
	}
	mutex.Lock()
	finish()
}

// CPU time of this process, seconds. One core works at a time, so this is what a clock would show if nothing else ran.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func load(path string) (history, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return history{}, err
	}
	if len(data) < 32 || !bytes.Equal(data[:8], []byte("FPBENCH1")) {
		return history{}, fmt.Errorf("%s: not a history for this program", path)
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint64(data[at:])) }
	model, n, keys := word(8), int(word(16)), int(word(24))
	if len(data) != 32+n*38 {
		return history{}, fmt.Errorf("%s: %d bytes for %d operations", path, len(data), n)
	}
	inputs := make([]input, n)
	operations := make([]porcupine.Operation, n)
	owners := int64(0)
	for i := range operations {
		inputs[i] = input{
			key:     binary.LittleEndian.Uint32(data[32+n*32+i*4:]),
			kind:    data[32+n*36+i],
			outcome: data[32+n*37+i],
			a:       word(32 + n*16 + i*8),
			b:       word(32 + n*24 + i*8),
		}
		owners = max(owners, inputs[i].a)
		operations[i] = porcupine.Operation{Input: &inputs[i], Call: word(32 + i*8), Return: word(32 + n*8 + i*8)}
	}
	return history{build(model, keys, owners), operations}, nil
}

func build(model int64, keys int, owners int64) porcupine.Model {
	built := [...]func(int64) porcupine.Model{mutexModel, fencedModel, registerModel}[model](owners)
	built.Partition = func(operations []porcupine.Operation) [][]porcupine.Operation {
		counts := make([]int, keys)
		for i := range operations {
			counts[operations[i].Input.(*input).key]++
		}
		all := make([]porcupine.Operation, 0, len(operations))
		parts := make([][]porcupine.Operation, keys)
		for key, count := range counts {
			parts[key] = all[len(all) : len(all) : len(all)+count]
			all = all[:len(all)+count]
		}
		for i := range operations {
			key := operations[i].Input.(*input).key
			parts[key] = append(parts[key], operations[i])
		}
		return parts
	}
	return built
}

// State: the owner, 0 for none. The states are made once, so that no step allocates.
func mutexModel(owners int64) porcupine.Model {
	states := make([]interface{}, owners+1)
	for owner := range states {
		states[owner] = int64(owner)
	}
	return porcupine.Model{
		Init: func() interface{} { return states[0] },
		Step: func(state, asked, _ interface{}) (bool, interface{}) {
			owner, in := state.(int64), asked.(*input)
			if in.outcome == fail {
				return true, state
			}
			if in.kind == acquire {
				if owner == 0 {
					return true, states[in.a]
				}
			} else if owner == in.a {
				return true, states[0]
			}
			// One that was never answered may have come to nothing, or come after everything else.
			return in.outcome == unknown, state
		},
		Hash: func(state interface{}) uint64 { return mixed(state.(int64)) },
	}
}

type fence struct{ token, value int64 }

// The store accepts a write if no higher token was written before. Arguments: token, value.
func fencedModel(int64) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return fence{math.MinInt64, none} },
		Step: func(state, asked, _ interface{}) (bool, interface{}) {
			now, in := state.(fence), asked.(*input)
			if in.kind == read {
				return in.outcome != ok || in.b == now.value, state
			}
			accepted := in.a >= now.token
			switch {
			case in.outcome == fail:
				return !accepted, state
			case accepted:
				return true, fence{in.a, in.b}
			default:
				return in.outcome == unknown, state
			}
		},
		Hash: func(state interface{}) uint64 { return mixed(state.(fence).token*31 + state.(fence).value) },
	}
}

// Arguments: what was expected, what was read or written. A failed compare-and-set saw another value.
func registerModel(int64) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return int64(none) },
		Step: func(state, asked, _ interface{}) (bool, interface{}) {
			now, in := state.(int64), asked.(*input)
			switch in.kind {
			case read:
				return in.outcome != ok || in.b == now, state
			case write:
				if in.outcome == fail {
					return true, state
				}
				return true, in.b
			}
			switch {
			case in.outcome == fail:
				return in.a != now, state
			case in.a == now:
				return true, in.b
			default:
				return in.outcome == unknown, state
			}
		},
		Hash: func(state interface{}) uint64 { return mixed(state.(int64)) },
	}
}

func mixed(value int64) uint64 {
	h := uint64(value) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}
