// An MPI library, opened at run time: its functions and its predefined handles.
//
// Before MPI 5 there is no binary interface that Open MPI and MPICH share, so this folder is compiled once against each
// header, in a namespace of its own (RODA_MPI_FLAVOUR: openmpi, mpich, standard). None is linked: a machine without the
// library loses nothing but that flavour, and two MPI libraries in one process do not answer each other's calls.
#pragma once

#include <mpi.h>
#include <roda/sdk/error.hpp>

#include <string>

namespace roda::mpi::RODA_MPI_FLAVOUR {

#define RODA_MPI_FUNCTIONS(X) \
  X(Initialized)              \
  X(Finalized)                \
  X(Init_thread)              \
  X(Query_thread)             \
  X(Finalize)                 \
  X(Get_version)              \
  X(Get_library_version)      \
  X(Error_string)             \
  X(Comm_rank)                \
  X(Comm_size)                \
  X(Comm_group)               \
  X(Comm_create_group)        \
  X(Comm_idup)                \
  X(Comm_free)                \
  X(Comm_set_errhandler)      \
  X(Comm_get_attr)            \
  X(Comm_set_attr)            \
  X(Comm_create_keyval)       \
  X(Group_incl)               \
  X(Group_free)               \
  X(Isend)                    \
  X(Improbe)                  \
  X(Imrecv)                   \
  X(Iprobe)                   \
  X(Test)                     \
  X(Testsome)                 \
  X(Get_elements_x)           \
  X(Iallreduce)               \
  X(Ireduce)                  \
  X(Ibcast)                   \
  X(Iallgatherv)              \
  X(Ialltoallw)               \
  X(Ireduce_scatter)          \
  X(Ibarrier)                 \
  X(Op_create)                \
  X(Type_create_hindexed)     \
  X(Type_commit)              \
  X(Type_free)

// Member, the standard's name, and the object behind it in Open MPI, whose handles are addresses.
#define RODA_MPI_HANDLES(X)                                                     \
  X(MPI_Comm, comm_world, MPI_COMM_WORLD, "ompi_mpi_comm_world")                \
  X(MPI_Comm, comm_self, MPI_COMM_SELF, "ompi_mpi_comm_self")                   \
  X(MPI_Comm, comm_null, MPI_COMM_NULL, "ompi_mpi_comm_null")                   \
  X(MPI_Request, request_null, MPI_REQUEST_NULL, "ompi_request_null")           \
  X(MPI_Errhandler, errors_return, MPI_ERRORS_RETURN, "ompi_mpi_errors_return") \
  X(MPI_Datatype, byte, MPI_BYTE, "ompi_mpi_byte")                              \
  X(MPI_Datatype, uint8, MPI_UINT8_T, "ompi_mpi_uint8_t")                       \
  X(MPI_Datatype, int8, MPI_INT8_T, "ompi_mpi_int8_t")                          \
  X(MPI_Datatype, uint16, MPI_UINT16_T, "ompi_mpi_uint16_t")                    \
  X(MPI_Datatype, int16, MPI_INT16_T, "ompi_mpi_int16_t")                       \
  X(MPI_Datatype, int32, MPI_INT32_T, "ompi_mpi_int32_t")                       \
  X(MPI_Datatype, int64, MPI_INT64_T, "ompi_mpi_int64_t")                       \
  X(MPI_Datatype, float32, MPI_FLOAT, "ompi_mpi_float")                         \
  X(MPI_Datatype, float64, MPI_DOUBLE, "ompi_mpi_double")                       \
  X(MPI_Op, sum, MPI_SUM, "ompi_mpi_op_sum")                                    \
  X(MPI_Op, min, MPI_MIN, "ompi_mpi_op_min")                                    \
  X(MPI_Op, max, MPI_MAX, "ompi_mpi_op_max")                                    \
  X(MPI_Op, prod, MPI_PROD, "ompi_mpi_op_prod")

// Read-only once opened; any thread. Calls are made as `library.Isend(...)`.
struct Library {
  // Opens it, checks that it is MPI 3 and fills the table. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason.
  void open();
  // True when another part of the process (mpi4py) has loaded this flavour already.
  static bool is_loaded();
  // Its components look MPI's symbols up in the process's global scope: before MPI starts they must be there.
  void make_global() const;

  std::string version_text() const {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    Get_library_version(text, &length);
    std::string line(text);
    return line.substr(0, line.find_first_of(",\n"));
  }
  MPI_Comm comm_from_fortran(int handle) const { return comm_from_int_(handle); }

  std::string path;
#define X(name) decltype(&MPI_##name) name = nullptr;
  RODA_MPI_FUNCTIONS(X)
#undef X
#define X(type, name, standard, symbol) type name{};
  RODA_MPI_HANDLES(X)
#undef X

 private:
  void load_handles(void* handle);
  MPI_Comm (*comm_from_int_)(int) = nullptr;
};

// With MPI's text; `what` says what was tried, and with whom.
sdk::Failure failure_of(const Library& library, int code, const char* what, int world_rank = -1);
// Throws that unless `code` is MPI_SUCCESS.
inline void check(const Library& library, int code, const char* what, int world_rank = -1) {
  if (code != MPI_SUCCESS) throw failure_of(library, code, what, world_rank);
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
