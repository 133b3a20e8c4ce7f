/* Work on streams: at once, or as part of a graph. Events. */

#include "standin.h"

static long work;

/* Breaks the device, for the rest of the process. */
void fault(const char *text) {
    standin_log("fault in %s", text);
    broken = ILLEGAL_ADDRESS;
}

static void run(const struct job *job) {
    if (broken) return;
    if (++work == setting("STANDIN_FAULT", 0)) {
        fault(job->text);
        return;
    }
    standin_log("%s", job->text);
    if (job->run) job->run(job->data);
}

/* Gives work to a stream: it happens at once, or becomes part of the graph that the stream captures. For the other
 * stand-ins too. `data` is copied. */
int standin_enqueue(void *handle, void (*function)(const void *), const void *data, size_t bytes, const char *text) {
    struct stream *stream = handle;
    READY();
    if (stream && stream->context != current) return INVALID_CONTEXT;
    if (!stream && captures) return CAPTURE_UNSUPPORTED;
    struct job *job = calloc(1, sizeof *job + bytes);
    job->run = function;
    job->bytes = bytes;
    if (bytes) memcpy(job->data, data, bytes);
    snprintf(job->text, sizeof job->text, "%s", text);
    if (stream && stream->capture) {
        *stream->capture->end = job;
        stream->capture->end = &job->next;
        stream->capture->jobs++;
        return SUCCESS;
    }
    run(job);
    free(job);
    return SUCCESS;
}

int cuStreamCreate(struct stream **stream, unsigned flags) {
    (void)flags;
    READY();
    *stream = calloc(1, sizeof **stream);
    (*stream)->context = current;
    current->live[STREAMS]++;
    standin_log("create stream");
    return SUCCESS;
}

static void free_graph(struct graph *graph) {
    for (struct job *job = graph->first, *next; job; job = next) {
        next = job->next;
        free(job);
    }
    graph->context->live[GRAPHS]--;
    free(graph);
}

/* What it captures is lost. */
int cuStreamDestroy_v2(struct stream *stream) {
    READY();
    if (!stream) return INVALID_HANDLE;
    if (stream->capture && stream->thread == &captures) captures--;
    if (stream->capture) free_graph(stream->capture);
    stream->context->live[STREAMS]--;
    standin_log("destroy stream");
    free(stream);
    return SUCCESS;
}

int cuStreamSynchronize(struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("synchronize");
    standin_log("synchronize stream");
    return SUCCESS;
}

int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    (void)stream, (void)flags;
    READY();
    return event ? SUCCESS : INVALID_HANDLE;
}

static struct graph *new_graph(void) {
    struct graph *graph = calloc(1, sizeof *graph);
    graph->context = current;
    graph->end = &graph->first;
    current->live[GRAPHS]++;
    return graph;
}

int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
    (void)mode;
    READY();
    if (!stream || stream->capture) return ILLEGAL_STATE;
    stream->capture = new_graph();
    stream->thread = &captures;
    stream->refused = refused;
    captures++;
    standin_log("begin capture");
    return SUCCESS;
}

/* Ends the capture also where it gives no graph, but for the wrong thread. */
int cuStreamEndCapture(struct stream *stream, struct graph **graph) {
    *graph = NULL;
    READY();
    if (!stream || !stream->capture) return ILLEGAL_STATE;
    if (stream->thread != &captures) return CAPTURE_WRONG_THREAD;
    struct graph *captured = stream->capture;
    stream->capture = NULL;
    captures--;
    if (stream->refused != refused) {
        standin_log("end capture: lost");
        free_graph(captured);
        return CAPTURE_INVALIDATED;
    }
    standin_log("end capture: %d pieces of work", captured->jobs);
    *graph = captured;
    return SUCCESS;
}

int cuStreamIsCapturing(struct stream *stream, int *status) {
    READY();
    *status = stream && stream->capture;
    return SUCCESS;
}

int cuEventCreate(struct event **event, unsigned flags) {
    (void)flags;
    READY();
    *event = calloc(1, sizeof **event);
    (*event)->context = current;
    current->live[EVENTS]++;
    return SUCCESS;
}

int cuEventDestroy_v2(struct event *event) {
    READY();
    if (!event) return INVALID_HANDLE;
    event->context->live[EVENTS]--;
    free(event);
    return SUCCESS;
}

int cuEventRecord(struct event *event, struct stream *stream) {
    READY();
    if (!event) return INVALID_HANDLE;
    event->recorded = 1;
    event->captured = stream && stream->capture;
    event->work = work;
    return SUCCESS;
}

static int elapsed(float *milliseconds, const struct event *from, const struct event *to) {
    READY();
    if (!from || !to || !from->recorded || !to->recorded) return INVALID_HANDLE;
    if (from->captured || to->captured) return CAPTURED_EVENT;
    *milliseconds = to->work - from->work;
    return SUCCESS;
}

int cuEventElapsedTime(float *milliseconds, struct event *from, struct event *to) { return elapsed(milliseconds, from, to); }

/* The name since CUDA 12.8. */
int cuEventElapsedTime_v2(float *milliseconds, struct event *from, struct event *to) {
    return elapsed(milliseconds, from, to);
}

int cuEventQuery(struct event *event) {
    READY();
    return event ? SUCCESS : INVALID_HANDLE;
}

int cuEventSynchronize(struct event *event) {
    READY_OUTSIDE_CAPTURE("synchronize");
    return event ? SUCCESS : INVALID_HANDLE;
}

int cuGraphInstantiateWithFlags(struct graph **executable, struct graph *graph, unsigned long long flags) {
    static long made;
    (void)flags;
    READY_OUTSIDE_CAPTURE("instantiate");
    made++;
    if (made > setting("STANDIN_GRAPHS", made)) return OUT_OF_MEMORY;
    struct graph *copy = *executable = new_graph();
    for (struct job *job = graph->first; job; job = job->next) {
        struct job *again = malloc(sizeof *again + job->bytes);
        memcpy(again, job, sizeof *again + job->bytes);
        again->next = NULL;
        *copy->end = again;
        copy->end = &again->next;
        copy->jobs++;
    }
    return SUCCESS;
}

static int destroy_graph(struct graph *graph) {
    READY();
    if (!graph) return INVALID_VALUE;
    free_graph(graph);
    return SUCCESS;
}

int cuGraphDestroy(struct graph *graph) { return destroy_graph(graph); }
int cuGraphExecDestroy(struct graph *executable) { return destroy_graph(executable); }

int cuGraphUpload(struct graph *executable, struct stream *stream) {
    (void)stream;
    READY();
    return executable ? SUCCESS : INVALID_VALUE;
}

int cuGraphLaunch(struct graph *executable, struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("graph launch");
    if (!executable) return INVALID_HANDLE;
    standin_log("launch graph: %d pieces of work", executable->jobs);
    for (const struct job *job = executable->first; job; job = job->next) run(job);
    return SUCCESS;
}
